"""The runs of Qwen2.5-Coder-1.5B on one GPU."""
