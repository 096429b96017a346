"""Predictions of starts: sampled futures of a queue under a scheduler, calibrated on the outcomes of earlier predictions."""
