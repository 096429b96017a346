"""Where a job goes: which nodes give how many of its units.

A job asks for units over the whole cluster (`chunks` = 0: any units of any nodes), or for k equal chunks, each whole on
one node. Either way a placement deals *things* (units of the job's leading resource, or chunks) to nodes. The last resource
that a job asks for leads (accelerators are named last):

    first    lowest node number first
    pack     depth-first, as few nodes as possible: one node that fits all (least left over), else the emptiest first
    spread   breadth-first: one at a time, round robin, starting at the emptiest node
    best     best fit: one node that fits all (least left over), else the fullest first
    balance  one at a time to the node with the largest free share
    typed    spread for compute-intensive jobs, pack for network-intensive ones, first for others (CuSH's type oracle)

The other resources of a loose job follow: one unit to each chosen node, then filling them in the same order, then anywhere.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import COMPUTE, NETWORK

PLACEMENTS = {"first": 0, "pack": 1, "spread": 2, "best": 3, "balance": 4, "typed": 5}
FIRST, PACK, SPREAD, BEST, BALANCE, TYPED = range(6)


@inlined
def placed_by(code, kind):
    """The placement that `code` means for a job of this kind."""
    if code != TYPED:
        return code
    return PACK if kind == NETWORK else SPREAD if kind == COMPUTE else FIRST


@kernel
def slots(free, request, chunks, i):
    """How many chunks of the job fit on node i."""
    most = np.int64(1) << 40
    for r in range(free.shape[1]):
        each = request[r] // chunks
        if each > 0:
            most = min(most, free[i, r] // each)
    return most


@kernel
def fits(free, request, chunks):
    """Would the job fit on these free units [N, R] now?"""
    if chunks > 0:
        have = 0
        for i in range(free.shape[0]):
            have += min(slots(free, request, chunks, i), chunks)
            if have >= chunks:
                return True
        return False
    for r in range(free.shape[1]):
        need = request[r]
        for i in range(free.shape[0]):
            if need <= 0:
                break
            need -= free[i, r]
        if need > 0:
            return False
    return True


@allocating
def _deal(code, have, cap, need, give):
    """Deal `need` things to nodes that have[N] of them free (cap[N] when empty); give[N] is filled. The order of nodes."""
    N = len(have)
    give[:] = 0
    if code == PACK or code == BEST:
        single = -1
        for i in range(N):
            if have[i] >= need and (single < 0 or have[i] < have[single]):
                single = i
        if single >= 0:
            give[single] = need
            return np.full(1, single)
    if code == FIRST:
        order = np.arange(N)
    elif code == BEST:
        order = np.argsort(have, kind="mergesort")
    else:
        order = np.argsort(-have, kind="mergesort")
    if code == SPREAD:
        while need > 0:
            for i in order:
                if need > 0 and give[i] < have[i]:
                    give[i] += 1
                    need -= 1
        return order
    if code == BALANCE:
        while need > 0:
            best, share = -1, -1.0
            for i in range(N):
                left = have[i] - give[i]
                if left > 0 and left / max(cap[i], 1) > share:
                    best, share = i, left / max(cap[i], 1)
            give[best] += 1
            need -= 1
        return order
    for i in order:
        give[i] = min(need, have[i])
        need -= give[i]
    return order


@kernel
def _single(code, free, request, lead):
    """The node that fits all of a loose job, least of its leading resource left over; -1 where none does or none is sought."""
    single = -1
    if code == PACK or code == BEST:
        for i in range(free.shape[0]):
            ok = single < 0 or free[i, lead] < free[single, lead]
            for r in range(free.shape[1]):
                ok = ok and free[i, r] >= request[r]
            if ok:
                single = i
    return single


@allocating
def place(code, free, capacity, request, chunks, node, amount):
    """Choose nodes for a job that fits: fills node[k], amount[k, R], takes them from `free`, and returns k.

    A code of `PLACEMENTS` but `typed`: see `placed_by`.
    """
    N, R = free.shape
    give, have, cap = np.zeros(N, np.int64), np.zeros(N, np.int64), np.zeros(N, np.int64)
    taken = np.zeros((N, R), np.int64)
    if chunks > 0:
        for i in range(N):
            have[i], cap[i] = slots(free, request, chunks, i), slots(capacity, request, chunks, i)
        _deal(code, have, cap, chunks, give)
        for i in range(N):
            for r in range(R):
                taken[i, r] = give[i] * (request[r] // chunks)
    else:
        lead = 0
        for r in range(R):
            if request[r] > 0:
                lead = r
        single = _single(code, free, request, lead)
        if single >= 0:
            for r in range(R):
                amount[0, r] = request[r]
                free[single, r] -= request[r]
            node[0] = single
            return 1
        have[:], cap[:] = free[:, lead], capacity[:, lead]
        order = _deal(code, have, cap, request[lead], give)
        taken[:, lead] = give
        for r in range(R):
            if r == lead or request[r] == 0:
                continue
            need = request[r]
            for i in order:  # each chosen node holds at least one
                if give[i] > 0 and need > 0 and free[i, r] > 0:
                    taken[i, r] = 1
                    need -= 1
            for i in order:
                if give[i] > 0:
                    more = min(need, free[i, r] - taken[i, r])
                    taken[i, r] += more
                    need -= more
            if need > 0:
                have[:], cap[:] = free[:, r] - taken[:, r], capacity[:, r]
                extra = np.zeros(N, np.int64)
                _deal(code, have, cap, need, extra)
                taken[:, r] += extra
    k = 0
    for i in range(N):
        used = False
        for r in range(R):
            used = used or taken[i, r] > 0
        if used:
            node[k] = i
            for r in range(R):
                amount[k, r] = taken[i, r]
                free[i, r] -= taken[i, r]
            k += 1
    return k
