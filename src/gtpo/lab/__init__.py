"""The lab: a tiny language model and a problem family of its own, small enough to train on a laptop in minutes."""
