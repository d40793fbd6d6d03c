"""Runs of a real model, Qwen2.5-Coder-1.5B-Instruct: specs, one arm, and the command that runs several."""
