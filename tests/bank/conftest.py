"""Workspaces to work in, and gradebooks to look into."""

from gradebooks import filled
from workspaces import course, learner, released

__all__ = ["course", "filled", "learner", "released"]
