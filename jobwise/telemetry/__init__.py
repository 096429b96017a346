"""Telemetry: what nodes said of themselves over time, as one table; read from files and from Prometheus."""
