"""Learners: networks, returns and losses as pure functions, and the update rules."""
