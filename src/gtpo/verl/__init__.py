"""GTPO on verl: an advantage estimator and a trainer mode that `src/gtpo_verl_plugin.py` makes known to verl."""
