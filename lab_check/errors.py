"""Mistakes of the person at the keyboard."""


class UserError(Exception):
    """A sentence that says what is wrong, where, and what to do next; shown without a traceback."""
