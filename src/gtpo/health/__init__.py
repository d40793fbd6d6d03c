"""Whether a run is healthy: a verdict as a pure function of the metrics that it logs."""
