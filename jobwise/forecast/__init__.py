"""Forecasts: how long jobs run, what type they are of."""
