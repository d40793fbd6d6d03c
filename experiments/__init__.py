"""Experiments that test the claims of arXiv:2508.03772: what is run, how it is run, and what came out."""
