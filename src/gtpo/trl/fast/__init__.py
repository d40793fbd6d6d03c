"""TRL's GRPOTrainer with padding-free updates and exact resume.

trainer                                     FastGRPOTrainer
trimming, padding, sharing, correction      fewer tokens in the update: the same gradients
generation                                  less work for Python around a colocated vLLM
resume, checkpoints                         runs that continue exactly, checkpoints that are verified
"""
