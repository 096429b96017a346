"""Power: what jobs and idle nodes draw, what a schedule costs, what a cap on power and a price of energy do to a schedule."""
