"""Log-linear scores: a weighted sum of features, the smaller first. Classic products of powers are special cases.

    smith           n E[run] / E[1/run]      Smith's rule with expectations from history, for bounded slowdown
    area-history    n E[run]                 smallest area first, by what such jobs use
    smith-geo       n r² exp(2 E[log run/r]) the geometric version
    smith-requested n r / E[1/run]           the request instead of the expected run

E[.] are estimates from jobs that have ended (`memory.py`). The weights of the rest of the features are learnt.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel

FEATURES = (
    "log_walltime",  # log r
    "log_processors",  # log n
    "log_ratio",  # log E[run / r]
    "log_short",  # log E[10 / max(run, 10)]
    "mean_log_ratio",  # E[log run / r]
    "log_wait",  # log (w + 60)
    "waited_part",  # w / (w + r)
    "log_stretch",  # log ((w + r) / r)
    "fits",  # 1 where it fits now
    "share",  # n / P
    "crowd_processors",  # min(Q, 200) / 100 log n
    "crowd_walltime",  # min(Q, 200) / 100 log r
    "novelty",  # 1 / (1 + completions of the class)
    "free_processors",  # free / P log n
)
F = len(FEATURES)


def weights(**terms: float) -> np.ndarray:
    """[F] weights by feature name; the rest 0."""
    out = np.zeros(F)
    for name, value in terms.items():
        out[FEATURES.index(name)] = value
    return out


@inlined
def linear(v, expected, logs, job, machine):
    """The score of one job. v [F] weights; `expected`: ratio, short, log ratio, completions; `logs` of request and processors;
    `job`: request (s), processors, wait (s); `machine`: jobs in the queue, free processors, all processors."""
    (ratio, short, log, count), (log_r, log_n), (r, n, w), (queued, free, total) = expected, logs, job, machine
    x = v[0] * log_r + v[1] * log_n + v[4] * log
    if v[2] != 0.0:
        x += v[2] * np.log(ratio)
    if v[3] != 0.0:
        x += v[3] * np.log(short)
    if v[5] != 0.0:
        x += v[5] * np.log(w + 60.0)
    if v[7] != 0.0:
        x += v[7] * np.log((w + r) / r)
    crowd = min(queued, 200.0) / 100.0
    x += v[6] * w / (w + r) + v[9] * n / total + crowd * (v[10] * log_n + v[11] * log_r)
    x += v[12] / (1.0 + count) + v[13] * free / total * log_n
    return x + v[8] if n <= free else x


@kernel
def score_linear(v, now, jobs, rows, free, total, known, out):
    """out[i] = score of job rows[i]; v [F]: weights; known [Q, 4]: what is expected of them."""
    for i in range(len(rows)):
        job = jobs[rows[i]]
        r, n, w = max(job["walltime"], 1.0), np.float64(job["request"][0]), now - job["submit"]
        k = known[i]
        logs, machine = (np.log(r), np.log(max(n, 1.0))), (np.float64(len(rows)), free, total)
        out[i] = linear(v, (k[0], k[1], k[2], k[3]), logs, (r, n, w), machine)
