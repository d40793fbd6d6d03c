"""What came out of a run, shown: reads records, never a trainer."""
