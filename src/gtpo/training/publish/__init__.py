"""The final model with a card of its numbers, in its folder and on the hub."""
