"""Verdicts, tables and figures from the committed data: `python -m experiments.present`."""
