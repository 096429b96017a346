"""The world of windows of a queue: which of the jobs shown is next."""
