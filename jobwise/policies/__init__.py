"""What decides: list schedulers and the grammar of their names."""
