"""The token view: what the update does to each token of a group, as an HTML page or in the terminal."""
