"""Instruments for a run of any GRPO trainer: what it logs, the groups worth keeping, and its health."""
