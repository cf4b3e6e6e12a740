"""What was handed in, read with suspicion."""
