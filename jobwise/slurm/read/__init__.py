"""A site's folder: what Slurm's commands print, read into a workload, a machine and the settings of a site."""
