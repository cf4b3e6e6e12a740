"""The week's notebook as part of the grade."""
