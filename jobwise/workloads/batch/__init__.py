"""Logs of batch systems other than Slurm, a module each: PBS, LSF, Grid Engine, Flux, HTCondor, OAR, Kueue, Batsim, and the
event files of a Slurm simulator. Each has `knows(file)` and `read(file)`."""
