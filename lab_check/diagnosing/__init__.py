"""Naming the mistake: what calls leave behind, and whose traces they are."""
