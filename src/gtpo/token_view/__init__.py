"""The token view: what the update did to each token of a group, as a page or in the terminal."""
