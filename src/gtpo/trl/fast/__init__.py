"""TRL's GRPOTrainer with padding-free updates and exact resume."""
