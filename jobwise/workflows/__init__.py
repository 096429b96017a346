"""Workflows that run: the runner, its ledger, workload managers, and the engines of CWL and WDL."""
