"""The world of GPUs given to jobs, row by row (RL-TAPS)."""
