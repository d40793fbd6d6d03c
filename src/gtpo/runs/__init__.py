"""Training runs, read from what `gtpo train` or any TRL trainer left on disk."""
