"""Outputs of a cycle of a running cluster: the journal, the page, site factors, nodes for jobs."""
