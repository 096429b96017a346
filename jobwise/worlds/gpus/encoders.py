"""The encoders of the world of GPUs, by name."""

from jobwise.worlds.gpus.encoder import image, jobs
from jobwise.worlds.gpus.links import links

MAKERS = {"rl-taps": image, "gpu-jobs": jobs, "gpu-links": links}
