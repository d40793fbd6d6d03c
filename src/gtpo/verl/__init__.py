"""GTPO on verl: an advantage estimator and a trainer mode, which `src/gtpo_verl_plugin.py` registers with verl."""
