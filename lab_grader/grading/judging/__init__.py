"""The judge's side of a worker: questions, budgets, verdicts."""
