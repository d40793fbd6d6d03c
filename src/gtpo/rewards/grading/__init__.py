"""Grading in worker processes with a hard timeout: an answer that hangs costs one row, not the run."""
