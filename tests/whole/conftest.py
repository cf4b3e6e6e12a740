"""Gradebooks to look into."""

from gradebooks import filled

__all__ = ["filled"]
