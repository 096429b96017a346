"""Speed of forecasts, promises, gates and refits on a log.

python -m benchmarks.forecast FOLDER_WITH_LOGS      writes benchmarks/FORECAST.md; nothing in it is typed by hand
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.timing import seconds
from jobwise.forecast import forests
from jobwise.policies import refit
from jobwise.policies.foreseen import at_submit, shipped
from jobwise.policies.names import resolve
from jobwise.policies.replay import past_waits, remembering
from jobwise.report.sections import made
from jobwise.sim.replay_batch import to_the_end
from jobwise.sim.state import allocate
from jobwise.simulate import simulate
from jobwise_experiments.study import read_log

HERE = Path(__file__).parent
LOG = "SDSC-SP2"
PROMISED = "smith-forecast-aged+easy+express2%+promise1.2x"
REPLAYS = (
    "fcfs+easy",
    "smith+easy",
    "smith-aged+easy+promise1.2x+by-history",
    "smith-forecast+easy",
    PROMISED,
    "jobwise",
    "smith-forecast+easy+refit",
    "jobwise+refit",
)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    log = read_log(parser.parse_args().logs, LOG)
    total, past = log.cluster.processors, log.by_end
    rows = []

    def told(what: str, work, runs: int = 3) -> None:
        rows.append(f"| {what} | {seconds(work, runs):.2f} |")
        print(rows[-1], flush=True)

    for name in REPLAYS:

        def whole(name=name) -> None:
            refit._known.clear()
            simulate(log, name)

        told(f"whole replay, `{name}`", whole, 1 if "refit" in name else 3)
    known, waits, policy = at_submit(shipped(), past, total, -np.inf), past_waits(past, total), resolve(PROMISED)
    known = known[np.argsort(past["submit"], kind="stable")]

    def given() -> None:
        s = allocate([log], log.cluster)
        to_the_end(s, remembering(s, 0, policy, log.past, known, waits), policy.rule, 1)

    told(f"whole replay, `{PROMISED}`, forecasts given", given)
    told("forecasts of all jobs when they came", lambda: at_submit(shipped(), past, total, -np.inf))
    gate = resolve("jobwise-unbounded")

    def look() -> None:
        gate._seen.clear()
        gate.choose(past[-9000:], log.cluster, 1)

    told("a look of `jobwise-unbounded` at 8,000 past jobs: 6 candidates, 2 replicas", look)
    told("new trees from the last 30,000 rows", lambda: forests.of_past(past[-60_000:], total), 1)
    text = [
        "# Forecasts, promises, gates",
        "",
        f"{made('python -m benchmarks.forecast FOLDER')}, {log.name}: {len(log):,} jobs. Seconds of wall time, "
        "medians of three (with refits: one), one core; LightGBM uses two.",
        "",
        "| what | s |",
        "|---|---|",
        *rows,
        "",
    ]
    (HERE / "FORECAST.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
