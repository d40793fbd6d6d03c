"""The report: curves of one or many runs as one page without scripts, and figures for papers."""
