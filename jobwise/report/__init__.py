"""Pages and pictures; only the command line imports this."""
