"""Grading a class: submissions in, judge and sandboxed worker, gradebook, reports and exports out."""
