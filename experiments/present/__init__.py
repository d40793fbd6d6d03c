"""From the committed data to verdicts, tables and figures."""
