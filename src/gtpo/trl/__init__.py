"""GTPO on TRL, and instruments for any GRPO trainer of TRL. Importing this package loads nothing of TRL.

The files fall into two groups. The second imports nothing of the first.

GTPO on TRL                         config, trainer, gathering, state
for any trainer of TRL's GRPO       fast, resume, checkpoints, trimming, padding, checks, versions
                                    watch, recording, generated, choosing, scoring, alerts, guard
"""
