"""Orders that change with every start: they look at what runs and what is free, in several resources."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating


@allocating
def score_drf(jobs, rows, running, started, total, out):
    """Dominant-resource fairness (Ghodsi et al., NSDI'11): the dominant share of what the job's user holds now.

    Jobs of users with equal shares (and jobs without a user) go by the job's own dominant share. The two are one number:
    user share + 1e-6 * own share.
    """
    users = np.unique(jobs["user"][rows]) if len(rows) else np.empty(0, np.int32)
    held = np.zeros((len(users), len(total)))
    for group in (running, started):
        for j in group:
            u = np.searchsorted(users, jobs[j]["user"])
            if u < len(users) and users[u] == jobs[j]["user"] and users[u] >= 0:
                for r in range(len(total)):
                    held[u, r] += jobs[j]["request"][r]
    for i in range(len(rows)):
        u = np.searchsorted(users, jobs[rows[i]]["user"])
        share, own = 0.0, 0.0
        for r in range(len(total)):
            if total[r] > 0:
                share = max(share, held[u, r] / total[r])
                own = max(own, jobs[rows[i]]["request"][r] / total[r])
        out[i] = share + 1e-6 * own


@allocating
def score_tetris(jobs, rows, left, total, out):
    """Tetris (Grandl et al., SIGCOMM'14): -(alignment - eps * remaining work), eps = mean alignment / mean work.

    Alignment = sum over resources of free * demand, both as shares of the capacity; remaining work = sum of
    demand share * (walltime - ran). Jobs that fit now go before all others.
    """
    work = np.empty(len(rows))
    mean_a, mean_w = 0.0, 0.0
    for i in range(len(rows)):
        job = jobs[rows[i]]
        a, w, fits = 0.0, 0.0, True
        for r in range(len(total)):
            if total[r] > 0:
                d = job["request"][r] / total[r]
                a += d * left[r] / total[r]
                w += d * max(max(job["walltime"], 1.0) - job["ran"], 1.0)
            fits = fits and job["request"][r] <= left[r]
        out[i], work[i] = a, w
        mean_a += a
        mean_w += w
        if not fits:
            out[i] = a - 1e9
    for i in range(len(rows)):
        out[i] = -(out[i] - (mean_a / mean_w * work[i] if mean_w > 0 else 0.0))
