"""Find the earliest start of a job: remove running jobs by their limits, in groups of half a minute and more, until it fits.

After Slurm 22.05, as measured on a real one (docs/systems/slurm.md).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.sim.lists.conservative import copy_row
from jobwise.sim.site.cells import RESOURCES, SETTLED, look
from jobwise.sim.site.closures import out_of_service
from jobwise.sim.site.node_choice import must_wait, of_types, pick
from jobwise.sim.site.node_room import (
    CPUS,
    WHATEVER,
    again,
    cell_of,
    enough,
    last_of,
    look_at,
    measure,
    of_gpus,
    rank,
    settle,
    unranked,
)
from jobwise.sim.site.node_sets import BITS, NOTHING, add_all, next_in, ones
from jobwise.sim.site.slurm_time import floored, is_exact, is_windowed, whole
from jobwise.sim.state import HEAP
from jobwise.site import ENDED, RELEVANT

BLOCK = 16  # running jobs whose nodes are looked at together

GROUP = 30.0  # s: the first group of running jobs that are taken away together ends so long after the first end; then twice it


@kernel
def mask_of(slurm, job, partition, mask):
    """The nodes that a job may use in a partition."""
    own, ask = slurm.site.partition[partition]["set"], slurm.site.ask[job["ask"]]["set"]
    for x in range(len(mask)):
        mask[x] = slurm.site.sets[own, x] & slurm.site.sets[ask, x] & slurm.work.up[x]


@kernel
def take_free(s, e, slurm):
    """Bring slurm.work.cells and slurm.work.up, the nodes that work and are in service, up to now."""
    look(s, e, slurm)
    for x in range(len(slurm.work.up)):
        slurm.work.up[x] = slurm.work.working[x]
    if len(slurm.site.closures):
        out_of_service(slurm, s.sims[e]["now"])
        slurm.work.marks[SETTLED] = 0


@inlined
def _expected(s, e, slurm, j, now):
    """Return the end of job j by its limit; for a list scheduler, a job over its limit ends soon."""
    t = whole(slurm, s.jobs[e, j]["due"])
    return now + 1.0 if t <= now and is_exact(slurm) else t


@inlined
def _free_at(slurm, t, now):
    """Return the time when a job that ends at t by its limit is gone: for a job over its limit, once it has been killed."""
    return t if t > now else max(t + slurm.site.settings[0]["kill_wait"], now + 1.0)


@allocating
def expected_ends(s, e, slurm, now):
    """slurm.work.ends[:n] = the running jobs by expected end, slurm.work.on the nodes that they are on; n."""
    n = s.sims[e]["running"]
    rows = s.lists[e, HEAP, :n].copy()
    rows = rows[np.argsort(slurm.ledger.turn[rows])]
    t = np.empty(n)
    for i in range(n):
        t[i] = _expected(s, e, slurm, rows[i], now)
    order = np.argsort(t, kind="mergesort")
    for i in range(n):
        _mark(slurm, i, rows[order[i]], t[order[i]])
    _blocks(slurm, 0, n)
    return n


@kernel
def _mark(slurm, i, j, t):
    """slurm.work.ends[i] = running job j, which ends at t; slurm.work.on[i] = its nodes."""
    end, parts = slurm.work.ends[i], slurm.work.parts
    end["job"], end["t"], end["low"], end["high"], end["cpus"] = j, t, slurm.work.on.shape[1], 0, 0
    here = slurm.work.part[j]
    while here >= 0:
        first, last = parts[here]["node"], parts[here]["node"] + parts[here]["more"]
        end["cpus"] = max(end["cpus"], parts[here]["amount"][CPUS])
        end["low"], end["high"] = min(end["low"], np.uint64(first // BITS)), max(end["high"], np.uint64(last // BITS + 1))
        here = parts[here]["next"]
    for x in range(end["low"], end["high"]):
        slurm.work.on[i, x] = NOTHING
    here = slurm.work.part[j]
    while here >= 0:
        first = np.int64(parts[here]["node"])
        add_all(slurm.work.on[i], first, first + parts[here]["more"] + 1)
        here = parts[here]["next"]


@kernel
def insert(s, e, slurm, n, j, now):
    """Job j has started, too; how many run."""
    k, t, turn, ends = n, _expected(s, e, slurm, j, now), slurm.ledger.turn, slurm.work.ends
    while k > 0 and (ends[k - 1]["t"] > t or (ends[k - 1]["t"] == t and turn[ends[k - 1]["job"]] > turn[j])):
        ends[k] = ends[k - 1]
        copy_row(slurm.work.on, k - 1, k)
        k -= 1
    _mark(slurm, k, j, t)
    _blocks(slurm, k, n + 1)
    return n + 1


@kernel
def _blocks(slurm, k, n):
    """The nodes of blocks of running jobs, from that of slurm.work.ends[k] on."""
    for b in range(k // BLOCK, n // BLOCK + 1):
        for x in range(slurm.work.on.shape[1]):
            slurm.work.blocks[b, x] = NOTHING
        for i in range(b * BLOCK, min(b * BLOCK + BLOCK, n)):
            for x in range(slurm.work.ends[i]["low"], slurm.work.ends[i]["high"]):
                slurm.work.blocks[b, x] |= slurm.work.on[i, x]


@inlined
def _none_touches(slurm, i, mask):
    """Is none of the block of running jobs that begins with slurm.work.ends[i] on a node of the mask?"""
    b = i // BLOCK
    for x in range(len(mask)):
        if slurm.work.blocks[b, x] & mask[x] != NOTHING:
            return False
    return True


@inlined
def _touches(slurm, i, mask):
    """Is running job slurm.work.ends[i] on a node of the mask?"""
    for x in range(slurm.work.ends[i]["low"], slurm.work.ends[i]["high"]):
        if slurm.work.on[i, x] & mask[x] != NOTHING:
            return True
    return False


@inlined
def _most(slurm, i, mask):
    """The CPUs that running job slurm.work.ends[i] could hold on nodes of the mask."""
    count = 0
    for x in range(slurm.work.ends[i]["low"], slurm.work.ends[i]["high"]):
        count += ones(slurm.work.on[i, x] & mask[x])
    return count * slurm.work.ends[i]["cpus"]


@kernel
def take_away(slurm, ask, j):
    """Running job j is taken away from slurm.work.later."""
    work, here = slurm.work, slurm.work.part[j]
    while here >= 0:
        part = work.parts[here]
        first, until = np.int64(part["node"]), np.int64(part["node"] + part["more"] + 1)
        node, c = next_in(work.room.mask, first, until), np.int64(work.cell_at[first])
        while node < until:
            c = cell_of(work.cells, node, c)
            if work.changes[0] < len(work.changed):
                work.changed[work.changes[0]] = c
            work.changes[0] += 1
            for r in range(RESOURCES):
                work.later[c, r] += part["amount"][r]
            work.room.sums[WHATEVER] += part["amount"][CPUS] * look_at(work.cells, work.room, c)
            again(ask, work.later, work.cells.capacity, work.room, c)
            node = next_in(work.room.mask, work.cells.first[c + 1], until)
        here = part["next"]


@kernel
def as_now(slurm):
    """slurm.work.later = what is free now, wherever a search has changed it."""
    every = slurm.work.changes[0] > len(slurm.work.changed)
    for k in range(slurm.work.cells.size[0] if every else slurm.work.changes[0]):
        c = k if every else slurm.work.changed[k]
        for r in range(RESOURCES):
            slurm.work.later[c, r] = slurm.work.cells.free[c, r]
    slurm.work.changes[0] = 0


@inlined
def _picked(slurm, ask, free):
    return pick(ask, slurm.work.cells, free, slurm.site.weight, slurm.work.room, slurm.work.node, slurm.work.more)


@kernel
def will_run(s, e, slurm, ask, mask, n, now, begin, until):
    """(nodes chosen into slurm.work.node, when the job could start on nodes of the mask); none, or not by `until`: (0, inf).
    From 24.11 on what ends before `begin` is gone."""
    settle(slurm)
    of_types(slurm, ask, mask)
    if must_wait(slurm, ask, slurm.work.typed):
        return 0, np.inf
    windowed, first = is_windowed(slurm), 0
    if windowed or (of_gpus(ask) and is_exact(slurm)):
        unranked(slurm.work.room, mask)
    if windowed and begin <= now:
        last_of(slurm.work.completing, mask, slurm.work.room)
    if of_gpus(ask):
        rank(ask, slurm.work.typed, slurm.work.cells, slurm.work.cells.free, slurm.work.room)
    if measure(ask, slurm.work.typed, slurm.work.cells, slurm.work.room) and not (windowed and begin > now):
        k = _picked(slurm, ask, slurm.work.cells.free)
        if k > 0:
            return k, now
    if windowed or slurm.ledger.preempt.size[0] > 0:  # as if those that it may stop were gone
        for i in range(slurm.ledger.preempt.size[0]):
            take_away(slurm, ask, slurm.ledger.preempt.row[i])
        first = _take_ended(slurm, ask, mask, n, begin) if windowed else 0
        if of_gpus(ask):
            rank(ask, slurm.work.typed, slurm.work.cells, slurm.work.later, slurm.work.room)
        k = _picked(slurm, ask, slurm.work.later) if enough(ask, slurm.work.room) else 0
        if k > 0:
            as_now(slurm)
            return k, now
    k, t = _will_run_later(s, e, slurm, ask, mask, first, n, until)
    as_now(slurm)
    return k, _free_at(slurm, t, now)


@kernel
def _take_ended(slurm, ask, mask, n, begin):
    """Take the running jobs away that have ended by begin; how many these are."""
    i, at = 0, begin if slurm.site.settings[0]["version"] >= ENDED else begin - 1.0
    while i < n and slurm.work.ends[i]["t"] <= at:
        if _touches(slurm, i, mask) and not slurm.ledger.preempt.gone[slurm.work.ends[i]["job"]]:
            take_away(slurm, ask, slurm.work.ends[i]["job"])
        i += 1
    return i


@inlined
def _shares_licences(s, e, slurm, i, row):
    """Has running job slurm.work.ends[i] a licence of those that row `row` of the site's requests for licences names?"""
    own = slurm.site.ask[s.jobs[e, slurm.work.ends[i]["job"]]["ask"]]["licences"]
    for x in range(slurm.site.licence_asks.shape[1]):
        if slurm.site.licence_asks[own, x] > 0 and slurm.site.licence_asks[row, x] > 0:
            return True
    return False


@kernel
def _will_run_later(s, e, slurm, ask, mask, first, n, until):
    """The same behind now, as the limits of running jobs slurm.work.ends[first:n] say: a job that is over its limit counts as
    gone at that."""
    i, returned, origin, window, last = first, first, np.inf, 0.0 if is_exact(slurm) else GROUP, np.inf
    need, some_gone = np.int64(ask["tasks"]) * ask["cpus"] - slurm.work.room.sums[WHATEVER], slurm.ledger.preempt.size[0] > 0
    windowed = is_windowed(slurm)
    licences = ask["licences"] if windowed and slurm.site.settings[0]["version"] < ENDED else 0
    while i < n:
        gone = False
        while i < n:
            while i % BLOCK == 0 and i + BLOCK < n and slurm.work.ends[i + BLOCK - 1]["t"] <= until:
                if licences or not _none_touches(slurm, i, mask):
                    break
                i += BLOCK
            t = slurm.work.ends[i]["t"]
            i += 1
            if t > until and not gone:
                return 0, np.inf
            if t > until and windowed:
                i -= 1
                break
            if some_gone and slurm.ledger.preempt.gone[slurm.work.ends[i - 1]["job"]]:
                continue
            if not _touches(slurm, i - 1, mask) and not (licences and _shares_licences(s, e, slurm, i - 1, licences)):
                continue
            if t > until:
                return 0, np.inf
            if origin == np.inf:
                origin = t if is_exact(slurm) else floored(slurm, t, GROUP) + GROUP
            if is_exact(slurm):
                origin = t if not gone else origin
            last, gone = t, True
            need -= _most(slurm, i - 1, mask)
            if i < n and slurm.work.ends[i]["t"] > origin + window:  # asked only behind a job that counts
                break
        if not gone:
            break
        window *= 2.0
        while window > 0.0 and i < n and slurm.work.ends[i]["t"] > origin + window:
            window *= 2.0
        if need > 0 and not of_gpus(ask):  # not enough, wherever on their nodes they give it back
            continue
        while returned < i:
            if returned % BLOCK == 0 and returned + BLOCK <= i and _none_touches(slurm, returned, mask):
                returned += BLOCK
                continue
            if _touches(slurm, returned, mask) and not (
                some_gone and slurm.ledger.preempt.gone[slurm.work.ends[returned]["job"]]
            ):
                take_away(slurm, ask, slurm.work.ends[returned]["job"])
            returned += 1
        if of_gpus(ask):
            rank(ask, slurm.work.typed, slurm.work.cells, slurm.work.later, slurm.work.room)
        if enough(ask, slurm.work.room):
            k = _picked(slurm, ask, slurm.work.later)
            if k > 0:
                return k, _last_on(slurm, i, k) if slurm.site.settings[0]["version"] >= RELEVANT else last
    return 0, np.inf


@kernel
def _last_on(slurm, n, k):
    """Return the last end of slurm.work.ends[:n] that is on the nodes slurm.work.node[:k]."""
    chosen = slurm.work.chosen
    for x in range(len(chosen)):
        chosen[x] = NOTHING
    for i in range(k):
        first = np.int64(slurm.work.node[i])
        add_all(chosen, first, first + slurm.work.more[i] + 1)
    x = n - 1
    while x > 0 and (slurm.ledger.preempt.gone[slurm.work.ends[x]["job"]] or not _touches(slurm, x, chosen)):
        x -= 1
    return slurm.work.ends[x]["t"]
