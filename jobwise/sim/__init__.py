"""The simulator: state, kernel, placement, backfilling, and the compiled list-scheduling loops."""
