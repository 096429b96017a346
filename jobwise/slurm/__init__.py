"""A real Slurm: the one module that talks to it (`client.py`), and what is run on it."""
