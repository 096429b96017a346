"""A page about a running cluster: state and predictions of a cycle, for browsers, portals (JSON) and Prometheus."""
