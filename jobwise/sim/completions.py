"""The heap of completions: rows of running jobs, the earliest end at the top. Each row knows its place in the heap."""

from __future__ import annotations

from jobwise.compiled import inlined, kernel


@inlined
def _earlier(truth, first, second):
    fa, fb = truth[first]["finish"], truth[second]["finish"]
    if fa != fb:
        return fa < fb
    ua, ub = truth[first]["updated"], truth[second]["updated"]
    return ua < ub or (ua == ub and first < second)


@kernel
def sift(heap, truth, n, i):
    """Move the row at place i of the heap (of n) up or down to where it belongs."""
    j = heap[i]
    while i > 0:
        up = (i - 1) >> 1
        if not _earlier(truth, j, heap[up]):
            break
        heap[i] = heap[up]
        truth[heap[i]]["heap"] = i
        i = up
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and _earlier(truth, heap[down + 1], heap[down]):
            down += 1
        if not _earlier(truth, heap[down], j):
            break
        heap[i] = heap[down]
        truth[heap[i]]["heap"] = i
        i = down
    heap[i] = j
    truth[j]["heap"] = i


@inlined
def take_out(heap, truth, n, j):
    """Take row j out of the heap, which has n others."""
    i, last = truth[j]["heap"], heap[n]
    truth[j]["heap"] = -1
    if last != j:
        heap[i] = last
        sift(heap, truth, n, i)
