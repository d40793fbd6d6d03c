"""Is a run working? A verdict as a pure function of the metrics that it logs."""
