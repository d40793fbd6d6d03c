"""The lab runs: arms, settings, seeds, and the command that trains them."""
