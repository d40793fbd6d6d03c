"""The lab: a tiny language model and problems for it, small enough to train on a laptop in minutes."""

from gtpo.lab.model import lab_model_dir
from gtpo.problems.lab import lab_problems

__all__ = ["lab_model_dir", "lab_problems"]
