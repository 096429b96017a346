"""Logs that are larger than memory: read, simulated, measured, written and generated part after part."""
