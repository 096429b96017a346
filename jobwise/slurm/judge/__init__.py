"""A site replayed: is the simulation right, what another setting or scheduler would have done, which settings are best."""
