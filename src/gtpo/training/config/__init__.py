"""From a recipe and a command line to checked options."""
