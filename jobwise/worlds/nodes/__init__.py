"""The world of a buffer of jobs for nodes that suit them or not (telemetry)."""
