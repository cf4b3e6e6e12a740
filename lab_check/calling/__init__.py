"""Calling a learner's code, here or in a sandbox, which sees this folder and no other of ours."""

# Where a submission may write, inside its sandbox.
SCRATCH = "/scratch"
