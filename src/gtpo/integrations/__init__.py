"""One folder per host, as thin as the host permits. Hosts do not import each other."""
