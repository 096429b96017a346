"""Schedulers' memory of ended jobs: run times by group, and the log-linear orders that use them."""
