"""The command line: one file a command. Data goes to stdout, progress and notes to stderr."""
