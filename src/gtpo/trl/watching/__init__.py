"""Instruments for a run of any GRPO trainer: what it logs, the groups worth keeping, and its health.

watch, alerts                   gtpo.watch: the verdict while training, and who is told
recording, choosing, generated  the groups worth keeping, and how they are written
scoring                         log-probabilities and entropies of recorded completions
guard                           an instrument that fails does not stop the run
"""
