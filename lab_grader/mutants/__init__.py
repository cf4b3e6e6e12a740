"""Small changes of the solutions, which the tests must notice."""
