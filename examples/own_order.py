"""A scheduler of one's own: an order is a function of the queued jobs' table and the time. Smaller scores start first.

jobwise simulate LOG --policy examples/own_order.py:patient_small+easy+guard24h
"""

import numpy as np


def patient_small(jobs: np.ndarray, now: float) -> np.ndarray:
    """Small areas first, but an hour of waiting is worth ten processor-hours."""
    area = jobs["request"][:, 0] * np.maximum(jobs["walltime"], 1.0)
    return area - 10 * (now - jobs["submit"])


if __name__ == "__main__":
    import jobwise as jw

    w = jw.lublin(jobs=2_000, procs=64, load=0.9, estimates="users")
    mine = jw.ListScheduler(patient_small, backfill="easy")
    for policy in ("fcfs+easy", "saf+easy", mine):
        s = jw.simulate(w, policy).summary()
        print(f"{getattr(policy, 'name', policy):20} {s['bounded_slowdown']:8.2f} {s['max_wait'] / 3600:8.1f} h")
