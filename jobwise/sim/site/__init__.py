"""Slurm's main loop on the nodes, partitions and limits of a site, and list schedulers there, compiled."""
