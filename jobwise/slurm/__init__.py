"""Slurm: the module that talks to it (`client.py`), a site that is read, and one that is judged by replays."""
