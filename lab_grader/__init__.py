"""Everything that checks: exercises, tests, diagnosis, release and grading of Lab Transformer."""
