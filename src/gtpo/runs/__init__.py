"""Runs on disk: what training left in a folder, in the form that every viewer reads."""
