"""Runs of the lab: arms, settings, and the command that trains them."""
