"""Streams of workflows: which rules are strong, and what a reserve for short tasks brings on arrivals nobody has seen.

python -m benchmarks.workflows --traces FOLDER      writes benchmarks/WORKFLOWS.md; nothing in it is typed by hand
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import jobwise as jw
from jobwise.compare.intervals import over_seeds
from jobwise.metrics import makespan, workflows
from jobwise.report.sections import made
from jobwise.systems.mars import RULES, tuned
from jobwise.workloads.streams import arrivals

HERE = Path(__file__).parent
SEEDS, STREAMS, PASTS, COUNT, LOAD = 5, 2, 3, 200, 0.9
KINDS = {
    "mix": "",
    "epigenomics": "epigenomics-",
    "montage": "montage-",
    "seismology": "seismology-",
    "1000genome": "1000genome-",
}
CASES = [("mix", 64), ("mix", 256), ("epigenomics", 64), ("montage", 64), ("seismology", 64), ("1000genome", 64)]
SHOWN = (*RULES[:6], "sjf", "flow-fcfs", "fcfs", "rank")


def one(case: tuple[str, int, int, str]) -> dict:
    """What rules and the tuned one make of the unseen streams of a seed."""
    kind, cores, seed, folder = case
    flows = [jw.open_workflow(f) for f in sorted(Path(folder).glob(f"{KINDS[kind]}*.json.gz"))]
    found = {
        "name": tuned([arrivals(flows, COUNT, cores, LOAD, [1, seed, k]) for k in range(PASTS)]),
        "kind": kind,
        "cores": cores,
    }
    for k in range(STREAMS):
        w = arrivals(flows, COUNT, cores, LOAD, [2, seed, k])
        for name in dict.fromkeys((*SHOWN, found["name"])):
            r = jw.simulate(w, name)
            key = "tuned" if name == found["name"] and name not in SHOWN else name
            slow = workflows(r)["slowdown"]
            found.setdefault(key, []).append((float(slow.mean()), makespan(r), float(slow.max())))
    found.setdefault("tuned", found.get(found["name"]))
    return found


def text(logs: list[float]) -> str:
    """A change in percent with its interval over seeds."""
    mean, low, high = (100 * np.expm1(x) for x in over_seeds(np.array(logs)))
    return f"{mean:+.0f} % [{low:+.0f}, {high:+.0f}]"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", default="../shared/traces/workflows")
    folder = parser.parse_args().traces
    cases = [(*case, seed, folder) for case in CASES for seed in range(SEEDS)]
    with ProcessPoolExecutor(2) as workers:
        found = list(workers.map(one, cases))
    rules, ours = [], []
    for kind, cores in CASES:
        of = [x for x in found if (x["kind"], x["cores"]) == (kind, cores)]

        def slow(name: str, of=of) -> np.ndarray:  # [seeds, streams]
            return np.array([[v[0] for v in x[name]] for x in of])

        best = min(RULES[:6], key=lambda n: np.log(slow(n)).mean())
        rules.append(f"| {kind}, {cores} | " + " | ".join(f"{slow(n).mean():.3g}" for n in SHOWN) + " |")
        change = np.log(slow("tuned") / slow(best)).mean(axis=1)
        spans = np.log([[a[1] / b[1] for a, b in zip(x["tuned"], x["rank"], strict=True)] for x in of]).mean()
        worst = np.log([[a[2] / b[2] for a, b in zip(x["tuned"], x[best], strict=True)] for x in of]).mean()
        chosen = ", ".join(f"`{x['name']}`" for x in of)
        ours.append(
            f"| {kind}, {cores} | {best} | {slow(best).mean():.3g} | {slow('tuned').mean():.3g} | {text(change)} | "
            f"{100 * np.expm1(spans):+.1f} % | {100 * np.expm1(worst):+.0f} % | {chosen} |"
        )
    page = f"""# Streams of workflows

Made by {made("python -m benchmarks.workflows")}; do not edit.

{COUNT} workflows a stream, drawn from real instances (WfCommons), Poisson arrivals at a load of {LOAD}, estimates off by a
lognormal factor (σ 0.5). {SEEDS} seeds of {STREAMS} unseen streams each; intervals 95 %, over seeds, of the geometric mean.

Mean workflow slowdown (turnaround / the larger of critical path and work / cores):

| stream, cores | {" | ".join(SHOWN)} |
|---|{"---|" * len(SHOWN)}
{chr(10).join(rules)}

A rule with a reserve for short tasks, chosen on {PASTS} other streams (`jobwise.systems.mars.tuned`), against the best of six
rules in hindsight; its makespan against upward rank's, its largest workflow slowdown against the best rule's:

| stream, cores | best rule | its slowdown | tuned | change | makespan | largest | chosen |
|---|---|---|---|---|---|---|---|
{chr(10).join(ours)}
"""
    (HERE / "WORKFLOWS.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
