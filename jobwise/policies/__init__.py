"""Policies: list schedulers and the grammar of their names."""
