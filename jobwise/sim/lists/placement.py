"""Place a job: choose the nodes and the number of its units on each.

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
from jobwise.sim.spans import count, separate, split

PLACEMENTS = {"first": 0, "pack": 1, "spread": 2, "best": 3, "balance": 4, "typed": 5}
FIRST, PACK, SPREAD, BEST, BALANCE, TYPED = range(6)


@inlined
def placed_by(code, kind):
    """The placement that `code` means for a job of this kind."""
    if code != TYPED:
        return code
    return PACK if kind == NETWORK else SPREAD if kind == COMPUTE else FIRST


@kernel
def slots(units, request, chunks):
    """Return the number of the job's chunks that fit into `units` [R]."""
    most = np.int64(1) << 40
    for r in range(len(units)):
        each = request[r] // chunks
        if each > 0:
            most = min(most, units[r] // each)
    return most


@kernel
def fits_on(spans, request, chunks):
    """Would the job fit now on these nodes?"""
    for r in range(len(spans.total)):
        if request[r] > spans.total[r]:
            return False
    if chunks == 0:
        return True
    have = np.int64(0)
    for i in range(spans.size[0]):
        have += min(slots(spans.free[i], request, chunks), chunks) * count(spans, i)
        if have >= chunks:
            return True
    return False


@allocating
def fits(free, request, chunks):
    """Would the job fit on these free units [N, R] now?"""
    return fits_on(separate(free, free), request, chunks)


@allocating
def _insert(order, i):
    """Span i was cut: the rest of it comes right behind it."""
    after = np.empty(len(order) + 1, np.int64)
    k = 0
    for x in order:
        after[k] = x + 1 if x > i else x
        k += 1
        if x == i:
            after[k] = i + 1
            k += 1
    return after


@allocating
def _shift(rows, i):
    """Span i was cut: the rest of it has its own row, the same."""
    after = np.empty((len(rows) + 1, rows.shape[1]), np.int64)
    after[: i + 1], after[i + 1 :] = rows[: i + 1], rows[i:]
    return after


HAVE, CAP, GIVE, LEAD, RANK, TAKEN = range(6)  # columns of a placement's rows, one for each span; the last for each resource


@allocating
def _cut(spans, i, nodes, rows, order):
    """Cut span i behind its first nodes; (rows, order) of the spans then."""
    if nodes == count(spans, i):
        return rows, order
    split(spans, i, nodes)
    return _shift(rows, i), _insert(order, i)


@allocating
def _in_turn(spans, need, rows, order):
    """One at a time, round robin in this order: whole rounds at once."""
    low, high = np.int64(0), need
    while low < high:  # as many whole rounds as there are
        mid, sum_ = (low + high + 1) >> 1, np.int64(0)
        for i in order:
            sum_ += min(rows[i, HAVE], mid) * count(spans, i)
        if sum_ <= need:
            low = mid
        else:
            high = mid - 1
    for i in order:
        rows[i, GIVE] = min(rows[i, HAVE], low)
        need -= rows[i, GIVE] * count(spans, i)
    k = 0
    while need > 0:
        i = order[k]
        if rows[i, HAVE] > low:
            nodes = min(count(spans, i), need)
            rows, order = _cut(spans, i, nodes, rows, order)
            rows[i, GIVE] += 1
            need -= nodes
        k += 1
    return rows, order


@allocating
def _balanced(spans, need, rows, order):
    """One at a time to the node with the largest free share, the lowest number first."""
    while need > 0:
        best, share = -1, -1.0
        for i in range(spans.size[0]):
            left = rows[i, HAVE] - rows[i, GIVE]
            if left > 0 and left / max(rows[i, CAP], 1) > share:
                best, share = i, left / max(rows[i, CAP], 1)
        nodes = min(count(spans, best), need)
        rows, order = _cut(spans, best, nodes, rows, order)
        rows[best, GIVE] += 1
        need -= nodes
    return rows, order


@allocating
def _filled(spans, need, rows, order):
    """As many as there are, node by node in this order."""
    k = 0
    while need > 0 and k < len(order):
        i = order[k]
        have = rows[i, HAVE]
        if have > 0:
            nodes = min(count(spans, i), max(need // have, 1))
            rows, order = _cut(spans, i, nodes, rows, order)
            rows[i, GIVE] = min(have, need)
            need -= rows[i, GIVE] * nodes
        k += 1
    return rows, order


@allocating
def _deal(code, spans, need, rows):
    """Deal `need` things to nodes that have rows[HAVE] of them free (rows[CAP] when empty): (rows, with GIVE of each node of a
    span; the order of spans, whose cuts have rows of their own)."""
    K = spans.size[0]
    rows[:, GIVE] = 0
    if code == PACK or code == BEST:
        single = -1
        for i in range(K):
            if rows[i, HAVE] >= need and (single < 0 or rows[i, HAVE] < rows[single, HAVE]):
                single = i
        if single >= 0:
            rows, order = _cut(spans, single, 1, rows, np.full(1, single))
            rows[single, GIVE] = need
            return rows, order[:1]
    if code == FIRST:
        return _filled(spans, need, rows, np.arange(K))
    if code == BEST:
        return _filled(spans, need, rows, np.argsort(rows[:, HAVE], kind="mergesort"))
    order = np.argsort(-rows[:, HAVE], kind="mergesort")
    if code == SPREAD:
        return _in_turn(spans, need, rows, order)
    if code == BALANCE:
        return _balanced(spans, need, rows, order)
    return _filled(spans, need, rows, order)


@kernel
def _single(code, spans, request, lead):
    """The span of a node that fits all of a loose job, least of its leading resource left over; -1 where none does or none is
    sought."""
    single = -1
    if code == PACK or code == BEST:
        for i in range(spans.size[0]):
            ok = single < 0 or spans.free[i, lead] < spans.free[single, lead]
            for r in range(spans.free.shape[1]):
                ok = ok and spans.free[i, r] >= request[r]
            if ok:
                single = i
    return single


@allocating
def _followed(code, spans, r, need, rows):
    """The rows with TAKEN of another resource: one unit to each chosen node, then filling them in the order in which they were
    chosen, then anywhere."""
    taken, order = TAKEN + r, np.argsort(rows[:, RANK], kind="mergesort")
    for fill in range(2):
        k = 0
        while k < len(order) and need > 0:
            i = order[k]
            more = spans.free[i, r] - rows[i, taken]
            if rows[i, LEAD] > 0 and more > 0:
                more = min(need, more) if fill else np.int64(1)
                nodes = min(count(spans, i), need // more)
                rows, order = _cut(spans, i, nodes, rows, order)
                rows[i, taken] += more
                need -= more * nodes
            k += 1
    if need > 0:
        for i in range(spans.size[0]):
            rows[i, HAVE], rows[i, CAP] = spans.free[i, r] - rows[i, taken], spans.capacity[i, r]
        rows, _ = _deal(code, spans, need, rows)
        rows[:, taken] += rows[:, GIVE]
    return rows


@allocating
def place_on(code, spans, request, chunks, node, more, amount):
    """Choose nodes for a job that fits, and take its units. Returns how many pieces: piece k is amount[k] [R] of each of
    node[k] and the more[k] nodes behind it.

    A code of `PLACEMENTS` but `typed`: see `placed_by`.
    """
    K, R = spans.size[0], spans.free.shape[1]
    rows = np.zeros((K, TAKEN + R), np.int64)
    if chunks > 0:
        for i in range(K):
            rows[i, HAVE] = slots(spans.free[i], request, chunks)
            rows[i, CAP] = slots(spans.capacity[i], request, chunks)
        rows, _ = _deal(code, spans, np.int64(chunks), rows)
        for r in range(R):
            rows[:, TAKEN + r] = rows[:, GIVE] * (request[r] // chunks)
    else:
        lead = 0
        for r in range(R):
            if request[r] > 0:
                lead = r
        single = _single(code, spans, request, lead)
        if single >= 0:
            rows, _ = _cut(spans, single, 1, rows, np.full(1, single))
            for r in range(R):
                rows[single, TAKEN + r] = request[r]
        else:
            rows[:, HAVE], rows[:, CAP] = spans.free[:K, lead], spans.capacity[:K, lead]
            rows, order = _deal(code, spans, request[lead], rows)
            for k in range(len(order)):
                rows[order[k], RANK] = k
            rows[:, LEAD] = rows[:, GIVE]
            rows[:, TAKEN + lead] = rows[:, GIVE]
            for r in range(R):
                if r != lead and request[r] > 0:
                    rows = _followed(code, spans, r, request[r], rows)
    k = 0
    for i in range(spans.size[0]):
        if rows[i, TAKEN:].any():
            node[k], more[k] = spans.first[i], count(spans, i) - 1
            for r in range(R):
                amount[k, r] = rows[i, TAKEN + r]
                spans.free[i, r] -= amount[k, r]
                spans.total[r] -= amount[k, r] * (more[k] + 1)
            k += 1
    return k


@allocating
def place(code, free, capacity, request, chunks, node, amount):
    """Choose nodes for a job that fits: fills node[k], amount[k, R], takes them from `free`, and returns k; see `place_on`."""
    return place_on(code, separate(free, capacity), request, chunks, node, np.empty(len(free), np.int64), amount)
