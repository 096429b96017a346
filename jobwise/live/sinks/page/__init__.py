"""A page about a running cluster: what a cycle saw and foretold, for browsers, portals (JSON) and Prometheus."""
