"""The method, in torch only: no I/O, no logging, no global state."""
