"""Do two answers mean the same? Pure functions on strings, run inside the grading workers."""
