"""Possible run times of a job: weighted bags of the run times of ended jobs, given the time that it has run already.

A bag holds the last run times of the same key (user, request, processors), recent ones weighing more; the last of the same
user, as shares of the request; and the last of the same class (request and processors, by powers of four). A key with few jobs
leans on the user, a user on the class. A little weight is spread over the whole request, and put on its end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, kernel

KEYS, USERS, CLASSES = 20, 50, 200  # run times that are kept of a key, a user, a class
KEY_FADE, USER_FADE = 0.9, 0.97
KEY_LEAN, USER_LEAN = 5.0, 20.0  # in run times: so many of its own weigh half
ANYWHERE, CLASS_ANYWHERE, AT_LIMIT = 0.005, 0.02, 0.005  # shares that are spread over the request, or put on its end
POINTS = 16  # that they are spread over


class Bags(NamedTuple):
    """The run times of jobs that ended, in rings; `count`: how many came in all."""

    key: np.ndarray  # [keys, KEYS] s
    key_count: np.ndarray  # [keys]
    user: np.ndarray  # [users, USERS] shares of the request
    user_count: np.ndarray
    of_class: np.ndarray  # [classes, CLASSES] s
    class_count: np.ndarray


def empty(keys: int, users: int, classes: int) -> Bags:
    """Return bags for these numbers of keys, users and classes; no job has ended yet."""
    rings = [(np.zeros((n, most)), np.zeros(n, np.int64)) for n, most in ((keys, KEYS), (users, USERS), (classes, CLASSES))]
    return Bags(*(x for ring in rings for x in ring))


def class_of(request: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return [J] the class of jobs that ask for `request` s and `size` processors."""
    long, wide = (np.log2(np.maximum(x, 1)).astype(np.int64) // 2 for x in (request, size))
    return np.minimum(long, 15) * 16 + np.minimum(wide, 15)


@kernel
def learn(bags, rows, ids, request, run):
    """Put in jobs rows[N] that have ended, in order of end: groups ids[J, 3], s requested [J], s run [J]."""
    for j in rows:
        k, u, c = ids[j, 0], ids[j, 1], ids[j, 2]
        bags.key[k, bags.key_count[k] % KEYS] = run[j]
        bags.user[u, bags.user_count[u] % USERS] = min(run[j] / max(request[j], 1.0), 1.0)
        bags.of_class[c, bags.class_count[c] % CLASSES] = run[j]
        bags.key_count[k] += 1
        bags.user_count[u] += 1
        bags.class_count[c] += 1


@kernel
def _add(ring, count, most, fade, scale, share, lean, value, weight, n):
    """Add a ring to a bag of n values: it takes as much of `share` as it has jobs for (lean < 0: all of it). Returns how many
    values there are, and the rest of the share."""
    held = min(count, most)
    total = 0.0
    for i in range(held):
        value[n + i] = ring[(count - 1 - i) % most] * scale
        weight[n + i] = fade**i
        total += weight[n + i]
    if held == 0:
        return n, share
    own = share * (total / (total + lean) if lean >= 0 else 1.0)
    for i in range(held):
        weight[n + i] *= own / total
    return n + held, share - own


@kernel
def _spread(request, share, value, weight, n):
    """Spread a share evenly over the request."""
    for i in range(POINTS):
        value[n + i] = (i + 0.5) / POINTS * request
        weight[n + i] = share / POINTS
    return n + POINTS


ROOM = KEYS + USERS + CLASSES + 2 * POINTS + 1


@allocating
def draw(bags, ids, request, elapsed, level, out):
    """out[K, J]: run times (s, in all) of jobs with groups ids[J, 3] and requests [J] s, that have run for elapsed[J] s, at
    levels [K, J] of (0, 1) of their bags. No job outlives its request, but by a second where it has done so already."""
    value, weight = np.empty(ROOM), np.empty(ROOM)
    for j in range(len(ids)):
        asked = max(request[j], 1.0)
        k, u, c = ids[j, 0], ids[j, 1], ids[j, 2]
        n, rest = _add(bags.key[k], bags.key_count[k], KEYS, KEY_FADE, 1.0, 1.0, KEY_LEAN, value, weight, 0)
        n, rest = _add(bags.user[u], bags.user_count[u], USERS, USER_FADE, asked, rest, USER_LEAN, value, weight, n)
        even = CLASS_ANYWHERE * rest if bags.class_count[c] > 0 else rest
        n, _ = _add(bags.of_class[c], bags.class_count[c], CLASSES, 1.0, 1.0, rest - even, -1.0, value, weight, n)
        n = _spread(asked, even + ANYWHERE, value, weight, n)
        value[n], weight[n] = asked, AT_LIMIT
        n += 1
        kept, total = 0, 0.0
        for i in range(n):
            x = min(value[i], asked)
            if x > elapsed[j] or (i == n - 1 and kept == 0):
                value[kept], weight[kept] = max(x, elapsed[j] + 1.0), weight[i]
                total += weight[i]
                kept += 1
        order = np.argsort(value[:kept])
        for i in range(1, kept):
            weight[order[i]] += weight[order[i - 1]]
        for k in range(len(level)):
            at, low, high = level[k, j] * weight[order[kept - 1]], 0, kept - 1
            while low < high:
                mid = (low + high) >> 1
                if weight[order[mid]] < at:
                    low = mid + 1
                else:
                    high = mid
            out[k, j] = value[order[low]]


@kernel
def levels(user, z, own, out):
    """out[K, J]: levels in (0, 1) of the run times of jobs of users [J]: those of a user go together (Gaussian copula with
    correlation 0.5; z [K, users], own [K, J] standard normal)."""
    half = math.sqrt(0.5)
    for k in range(len(out)):
        for j in range(len(user)):
            x = half * z[k, user[j]] + half * own[k, j]
            out[k, j] = 0.5 * math.erfc(-x * half)
