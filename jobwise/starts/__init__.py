"""When jobs will start: sampled futures of a queue under a scheduler, calibrated on what came of earlier predictions."""
