"""A running cluster: read now, predicted, followed by a policy beside it, steered."""
