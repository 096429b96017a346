"""Scheduling with the choices left open: E simulations side by side, each stopped where an agent must choose a job.

The general loop (`sim/lists/list_loop.py`) has an order and decides by itself; here the pass stops wherever there is a choice
and shows a window of jobs. This is what the stopped pass remembers; `window.go` carries choices out and goes on.

A pass has two phases, with trial runs three. HEADS: the next job in order is chosen; if it fits it starts, else it is the head
and has the reservation. BEHIND: of the jobs that may start beside or before the reservation one is chosen, and so on. TRYING:
of the jobs that fit into what is idle then one is chosen, whose trial run begins, and so on.

    mode      the head that does not fit       behind it                      asked
    pick      is forgotten at the next event   EASY, the chooser chooses      where two jobs or more could be, and one fits
    reserve   keeps its turn until it starts   EASY in order of arrival       whenever the turn is free and a job waits
                                               (or the chooser chooses)
    commit    keeps its turn                   nobody, or RLScheduler's rule  the same, after every single event

A pool is assumed, of processors or of several resources (`MORE` besides the first): where a job runs does not matter. With a
guard, a job that has waited longer goes first, unasked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import kernel
from jobwise.errors import InputError
from jobwise.sim.lists import ranked
from jobwise.sim.state import State

HEADS, BEHIND, PASSED, TRYING, TRIED = range(5)
BACKFILLS = ("none", "chosen", "easy", "greedy")
NONE, CHOSEN, EASY, GREEDY = range(4)
FILLS = ("oldest", "mixed")
OLDEST, MIXED = range(2)
MORE = 3  # resources besides the first that a machine may have

moment_dtype = np.dtype(  # what an encoder may see of it: all that a scheduler knows
    [
        ("now", "f8"),
        ("free", "i8"),
        ("total", "i8"),
        ("running", "i8"),
        ("queued", "i8"),
        ("count", "i8"),  # jobs in the window
        ("phase", "i1"),
        ("sticky", "i1"),  # a head keeps its turn until it starts
        ("backfill", "i1"),
        ("fill", "i1"),  # which jobs the window shows where more wait
        ("head", "i4"),  # the row that has the reservation; -1 none
        ("place", "i4"),  # its place in the queue
        ("tried", "i4"),  # places of the queue that need no second look in this pass
        ("shadow", "f8"),  # s; -1: the head has none yet
        ("extra", "i8"),
        ("guard", "f8"),  # s; inf without
        ("bound", "f8"),  # s of waiting after which a job counts as late
        ("more_total", "i8", (MORE,)),  # units of the resources besides the first: of the machine,
        ("more_extra", "i8", (MORE,)),  # beside the reservation,
        ("more_free", "i8", (MORE,)),  # and free now
        ("trials", "i1"),  # waiting jobs run in idle processors (`pool/trials.py`)
        ("held", "i8"),  # processors of trial runs, which are free to starts
        ("trying", "i8"),  # trial runs
        ("waits", "i1"),  # nobody may be chosen (`waiting.py`)
        ("price", "f8"),  # of a kWh now, against the mean of the next day
        ("cheapest", "f8"),  # the lowest of that day, against the same
        ("soon", "f8"),  # days until then
    ],
    align=True,
)
item_dtype = np.dtype(  # a queued job as the pass and the encoders need it, side by side in memory
    [
        ("submit", "f8"),  # s
        ("est", "f8"),  # s, walltime less what has run, at least 1
        ("row", "i4"),
        ("size", "i4"),  # processors
        ("user", "i4"),
        ("group", "i4"),
        ("app", "i4"),
        ("memory", "f4"),  # kB a processor
        ("flow", "i4"),  # its workflow; -1: none
        ("rank", "f4"),  # s, the longest way from its begin to an end of that
        ("queue", "i4"),
        ("partition", "i4"),
        ("more", "i4", (MORE,)),  # units of the resources besides the first
        ("began", "f8"),  # s, its trial run; NaN: it runs in none
        ("draw", "f8"),  # W that it adds, as is assumed
        ("gain", "f8"),  # part of its cost that it would save at its cheapest begin of the next day
    ],
    align=True,
)
running_dtype = np.dtype(  # a running job as encoders see it
    [
        ("start", "f8"),  # s
        ("due", "f8"),  # s, estimated end
        ("row", "i4"),
        ("size", "i4"),  # processors
        ("user", "i4"),
        ("group", "i4"),
        ("app", "i4"),
        ("more", "i4", (MORE,)),  # units of the resources besides the first
        ("share", "f8"),  # the largest share that it holds of a resource
    ],
    align=True,
)
WORDS = item_dtype.itemsize // 8

# What happened between two choices: rewards are functions of it. Sums are over jobs.
interval_dtype = np.dtype(
    [
        ("seconds", "f8"),  # simulated time passed
        ("waited", "f8"),  # job-seconds of waiting
        ("slowed", "f8"),  # increase of the jobs' bounded slowdowns (TAU)
        ("late_bounds", "f8"),  # waits beyond the bound, in bounds, of jobs that started
        ("ideal", "f8"),  # sum of 1 / run time over jobs in the system, after the choice
        ("ideal_seconds", "f8"),  # its integral over time
        ("picked_wait", "f8"),  # s, of the chosen job
        ("longest_wait", "f8"),  # s, in the queue at the choice
        ("picked_size", "f8"),  # processors
        ("used", "f8"),  # processors occupied after the choice
        ("size", "f8"),  # processors of the machine
        ("jobs", "f8"),  # jobs of the episode
        ("total", "f8"),  # sum of bounded slowdowns of the jobs started so far in the episode
        ("started", "f8"),  # how many
        ("longest", "f8"),  # s, the longest wait of those
        ("all_waited", "f8"),  # s, the sum of their waits
        ("over", "f8"),  # 1 where every job has started
        ("first", "f8"),  # 1 before the first choice: what came before it counts to the first interval
        ("inverse", "f8"),  # now: sum over the queue of 1 / max(run, TAU)
        ("present", "f8"),  # now: sum over queue and machine of 1 / max(run, 1)
        ("shares", "f8", (1 + MORE,)),  # of each resource of a machine of several: occupied after the choice
        ("dear_waits", "f8"),  # waits (s) x prices of the jobs that started
        ("price", "f8"),  # mean price of a job of the episode
        ("paid", "f8"),  # what the energy costs of the jobs that started
        ("par", "f8"),  # what that of a job costs at the mean price, in the mean
    ],
    align=True,
)


class Choices(NamedTuple):
    """The memory of the pass in progress. E simulations, J jobs, W jobs in a window."""

    moment: np.ndarray  # [E] of moment_dtype
    queue: np.ndarray  # [E, J] of item_dtype, in order of entry
    words: np.ndarray  # [E, WORDS x J] the same memory as numbers of eight bytes
    interval: np.ndarray  # [E] of interval_dtype, in progress
    report: np.ndarray  # [E] the last one that is complete
    mask: np.ndarray  # [E, W] i1: 1 for the slots that show a job, slot 0 always
    slots: np.ndarray  # [E, W] places in the queue that the window shows: the first `count`
    running: ranked.Blocks  # [E, ...] running jobs by estimated end
    key: np.ndarray  # [E, J] room for a selection
    node: np.ndarray  # where jobs are put: nowhere in particular on a pool of processors, else on the only node
    amount: np.ndarray  # [E, R]


def allocate(
    s: State,
    window: int,
    *,
    sticky: bool,
    backfill: str,
    fill: str = "oldest",
    guard: float = np.inf,
    bound: float = 86400.0,
    trials: bool = False,
    waits: bool = False,
) -> Choices:
    """Memory for the simulations of `s`, to be begun with `ask(…, BEGIN)`."""
    E, J = s.jobs.shape
    one = ranked.build(min(J, int(s.nodes["capacity"].max())))
    moment = np.zeros(E, moment_dtype)
    moment["sticky"], moment["backfill"], moment["fill"] = sticky, BACKFILLS.index(backfill), FILLS.index(fill)
    moment["guard"], moment["bound"], moment["trials"], moment["waits"] = guard, bound, trials, waits
    running = ranked.Blocks(*(np.repeat(a[None], E, axis=0) for a in one))
    R = s.jobs["request"].shape[2]
    if R > 1 + MORE:
        raise InputError(f"windows of queues are for machines of up to {1 + MORE} resources, not {R}")
    if trials and R > 1:
        raise InputError(f"trial runs are for machines of processors alone, not of {R} resources")
    node, amount = np.zeros(int(R > 1), np.int32), np.zeros((E, R), np.int64)
    interval, key = np.zeros(E, interval_dtype), np.zeros((E, J if fill == "mixed" and window < J else 1))
    J += waits  # behind the queue there is room for nobody
    queue = np.zeros((E, J), item_dtype)
    mask = np.zeros((E, window), np.int8)
    mask[:, 0] = 1
    words = queue.view(np.int64).reshape(E, J * WORDS)
    return Choices(
        moment=moment,
        queue=queue,
        words=words,
        interval=interval,
        report=interval.copy(),
        mask=mask,
        slots=np.zeros((E, window), np.int32),
        running=running,
        key=key,
        node=node,
        amount=amount,
    )


@kernel
def _smallest(x, n, k):
    """The k-th smallest (from 1) of x[:n], which is disordered (Hoare's selection)."""
    low, high = 0, n - 1
    while low < high:
        pivot, i, j = x[(low + high) >> 1], low, high
        while i <= j:
            while x[i] < pivot:
                i += 1
            while x[j] > pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return x[k - 1]


@kernel
def show_mixed(item, slots, key, count):
    """The window where more wait than it holds: a third the oldest, of the others a third the shortest, a third the smallest.

    item [J] of item_dtype, of which the first `count` wait; slots [W] to fill; key [J] room to work in.
    A shown item is marked by the complement of its row, and unmarked at the end. Ties: the older.
    """
    W = len(slots)
    third = W // 3
    oldest = W - 2 * third
    for i in range(oldest):
        item[i]["row"] = ~item[i]["row"]
    for by_size in range(2 if third > 0 else 0):
        n = 0
        for i in range(oldest, count):
            if item[i]["row"] >= 0:
                key[n] = item[i]["size"] if by_size else item[i]["est"]
                n += 1
        most, ties = _smallest(key, n, third), third
        for i in range(n):
            ties -= key[i] < most
        for i in range(oldest, count):
            x = item[i]
            value = np.float64(x["size"]) if by_size else x["est"]
            if x["row"] >= 0 and (value < most or (value == most and ties > 0)):
                ties -= value == most
                x["row"] = ~x["row"]
    k = 0
    for i in range(count):  # in order of arrival again
        if item[i]["row"] < 0:
            item[i]["row"] = ~item[i]["row"]
            slots[k] = i
            k += 1
