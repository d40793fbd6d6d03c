"""Whether a run is healthy: a verdict as a pure function of the metrics that it logs.

state               the logged series as the checks see them
checks, rewards     one function per kind of trouble; held_out has what the checks of rewards compare
result              what a check returns
verdict             all checks together, and what to try
"""
