"""The method, in torch alone: no I/O, no logging, no global state."""
