"""The world of slots before a backlog, on a grid of time (DeepRM, CuSH)."""
