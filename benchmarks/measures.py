"""Which number answers which question: schedulers ranked by each measure, on logs, and where the ranks disagree.

python -m benchmarks.measures FOLDER_WITH_LOGS

Writes docs/measures.md, generated.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.markdown import table
from jobwise.compare.comparison import Comparison
from jobwise.compare.procedure import compare
from jobwise.report.sections import made
from jobwise.workloads.transform import first
from jobwise_experiments.study import read_log

DOCS = Path(__file__).parent.parent / "docs" / "measures.md"
LOGS = ("SDSC-SP2", "LANL-CM5", "ALCF-Theta", "SDSC-BLUE", "HPC2N")
JOBS, REPLICAS = 40_000, 2
POLICIES = ("fcfs+easy", "sjf+easy", "saf+easy", "lxf+easy", "smith+easy", "jobwise")
MEASURES = {  # of a summary: what it is called, whether less is better
    "bounded_slowdown": ("mean bounded slowdown", True),
    "wait": ("mean wait, h", True),
    "area_weighted_response": ("area-weighted response, h", True),
    "area_weighted_wait": ("area-weighted wait, h", True),
    "throughput_spread": ("throughput ±", True),
    "utilisation": ("utilisation", False),
    "max_wait": ("longest wait, h", True),
}
HOURS = ("wait", "area_weighted_response", "area_weighted_wait", "max_wait")
QUESTIONS = (
    ("How long does a job wait, in a typical case?", "median, p95, p99 wait", "long jobs count as much as short ones"),
    ("Is a short job kept waiting for longer than it runs?", "bounded slowdown", "a few short jobs decide the mean"),
    ("How long does work take, whoever's it is?", "area-weighted response", "users with small jobs hardly count"),
    ("Do large and long jobs pay for the others?", "area-weighted wait", "the same"),
    ("Who waits longest?", "longest wait, share that waits over a day", "one job decides the first"),
    (
        "Is the machine used?",
        "utilisation, processor hours used and idle",
        "below a load of 1 it hardly depends on a scheduler",
    ),
    ("Does the work come out evenly?", "throughput ±", "submits come unevenly, and so does what ends"),
    ("Is one user served worse than the next?", "user fairness, waits by user", "fair shares are not in it"),
)


def of_log(c: Comparison) -> list[str]:
    """The lines of a log: each measure of each scheduler with its rank, and the two changes."""
    whole, rows = c.whole, []
    ranks = {}
    for m, (_, less) in MEASURES.items():
        ranks[m] = np.argsort(np.argsort([s[m] * (1 if less else -1) for s in whole])) + 1
    for p, name in enumerate(c.policies):
        cells = []
        for m in MEASURES:
            x = whole[p][m] / (3600.0 if m in HOURS else 1.0)
            cells.append(f"{x:,.2f} ({ranks[m][p]})" if m != "utilisation" else f"{x:.3f} ({ranks[m][p]})")
        changes = ["reference", "reference"] if p == 0 else [c.change(p).text(), c.change_weighted(p).text()]
        rows.append([f"`{name}`", *cells, *changes])
    heads = ["scheduler", *(n for n, _ in MEASURES.values()), "change of slowdown [95 %]", "of area-weighted response [95 %]"]
    return [f"### {c.workload.name}", "\n".join(table(heads, rows))]


def disagreement(comparisons: list[Comparison]) -> str:
    """Count pairs of schedulers that two measures order the other way, and claims that the other measure denies."""
    rows = []
    for m, (name, less) in MEASURES.items():
        if m == "bounded_slowdown":
            continue
        other, every = 0, 0
        for c in comparisons:
            for a, b in combinations(c.whole, 2):
                sign = (1 if less else -1) * np.sign(a[m] - b[m])
                other += int(sign * np.sign(a["bounded_slowdown"] - b["bounded_slowdown"]) < 0)
                every += 1
        rows.append([name, f"{other} of {every}"])
    heads = ["measure", "pairs of schedulers that it orders the other way than the mean bounded slowdown"]
    return "\n".join(table(heads, rows))


def denied(comparisons: list[Comparison]) -> str:
    """Say in how many comparisons a gain in slowdown is a loss in area-weighted response, both for sure."""
    gains = [(c, p) for c in comparisons for p in range(1, len(c.policies)) if c.change(p).high < 0]
    losses = sum(c.change_weighted(p).low > 0 for c, p in gains)
    both = sum(c.change_weighted(p).high < 0 for c, p in gains)
    return (
        f"Of {len(gains)} schedulers whose slowdown is lower than that of `{POLICIES[0]}` for sure (95 %), {losses} have a "
        f"higher area-weighted response for sure, {both} a lower one, and of {len(gains) - losses - both} it cannot be said."
    )


def main() -> None:
    """Compare, rank, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    asked = parser.parse_args()
    stamp, every = made("python -m benchmarks.measures FOLDER"), []
    for name in LOGS:
        print(f"measures: {name}", file=sys.stderr, flush=True)
        every.append(compare(first(read_log(asked.logs, name), JOBS), POLICIES, replicas=REPLICAS))
    text = [
        "# Which number answers which question",
        stamp,
        "All of these are in `simulate`, in reports and in JSON; `compare --all` prints them. Response is wait and run; area "
        "is processors times run time; throughput ± is the standard deviation of the jobs that end in a day, over their mean.",
        "\n".join(table(["question", "number", "what to know"], [list(x) for x in QUESTIONS])),
        "Boëzennec, Dufossé and Pallez (ACM TOMPECS 2024) call the mean bounded slowdown hazardous for comparing schedulers: "
        "it falls when short jobs pass long ones, whatever the long ones lose. They advise the area-weighted response time, "
        "the utilisation and the spread of the throughput. Their example on the logs here: schedulers, each measure, and in "
        f"brackets their rank by it (1 is best). The first {JOBS:,} jobs of each log, means of {REPLICAS} time-shifted "
        "replicas.",
        "## Where measures disagree",
        denied(every),
        disagreement(every),
        "## Log by log",
        *(line for c in every for line in of_log(c)),
    ]
    DOCS.write_text("\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
