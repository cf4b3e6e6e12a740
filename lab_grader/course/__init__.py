"""What only the course's side has: the bank of wrong turns, release, serving. Never released."""
