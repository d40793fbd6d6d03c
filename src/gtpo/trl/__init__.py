"""GTPO on TRL, and two folders that serve any GRPO trainer of TRL. Importing this package loads nothing of TRL.

config, trainer, gathering, components,
state, penalty                                GTPO, and the other credit schemes
fast/                                         FastGRPOTrainer: padding-free updates, exact resume
watching/                                     gtpo.watch: alerts, recorded groups, health
checks, versions                              what TRL accepts, and which TRL

fast/ and watching/ import nothing of GTPO's own files and nothing of each other.
"""
