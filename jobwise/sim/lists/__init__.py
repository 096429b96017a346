"""List schedulers, compiled: orders, EASY and conservative reservations, placement, a pass, whole simulations."""
