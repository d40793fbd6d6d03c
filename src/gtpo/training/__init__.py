"""From a recipe to a trained model in a folder of its own: what `gtpo train` does."""
