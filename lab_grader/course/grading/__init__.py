"""Grading a class: submissions in, judge and sandboxed worker, gradebook, reports and exports out."""

# Where a submission may write, inside its sandbox.
SCRATCH = "/scratch"
