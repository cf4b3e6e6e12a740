"""Grades: the course's rules, the book, reports, and files for other systems."""
