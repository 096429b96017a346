"""Which jobs a window shows where more wait than it holds."""

from __future__ import annotations

import numpy as np

from jobwise.sim.compiled import kernel


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
