"""Rewards, problems and the lab can be imported without the libraries that they use."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "trl", "datasets", "pyarrow", "numpy", "sympy", "math_verify", "matplotlib")
CODE = """
import sys
import gtpo.rewards, gtpo.rewards.equivalence, gtpo.problems, gtpo.lab
sys.stdout.write(" ".join(set(sys.argv[1:]) & set(sys.modules)))
"""


def test_rewards_problems_and_lab_import_no_heavy_library():
    command = [sys.executable, "-c", CODE, *HEAVY]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == ""
