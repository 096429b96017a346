"""Worlds: how a simulation becomes decision points for an agent."""
