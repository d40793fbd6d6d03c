"""What a run is given: problems, reward functions, an adapter to continue from."""
