"""What schedulers know of jobs that have ended: run times by group, and the log-linear orders that go by them."""
