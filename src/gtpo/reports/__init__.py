"""What a run's records say: curves, comparison, health. Reads records, never a trainer."""
