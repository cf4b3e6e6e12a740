"""Running the exercises' tests: what they ask for, where they run, how each ends."""
