"""How often is an interval wrong? Replicas of one rule against each other, and pairs of rules whose difference is known.

python -m benchmarks.intervals FOLDER_WITH_LOGS     # writes benchmarks/INTERVALS.md

*False claims*: windows of a log under one rule, four time-shifted replicas of each window on either side, none of them shared:
a fair test at 5 % tells the two sides apart in 5 % of the trials. *Coverage*: two different rules, the same four replicas for
both, as `compare` does it; the truth is the mean over all windows and replicas of the log; a fair 95 % interval holds it in 95
%. Blocks of two neighbouring windows are drawn at random, or windows as one run of neighbours: the truth is then that of other
times, too.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from itertools import combinations, product
from pathlib import Path

import numpy as np

import jobwise as jw
from benchmarks.markdown import table
from jobwise.compare import intervals, windows
from jobwise.compare.intervals import Effect, claims, effect, in_blocks, log_ratio, pooled, ratio_interval
from jobwise.report.sections import made
from jobwise.simulate import simulate
from jobwise.workloads.transform import shake

LOGS = ("SDSC-SP2-1998", "SDSC-BLUE-2000", "LANL-CM5-1994")
RULES = ("fcfs+easy", "sjf+easy", "saf+easy", "unicef+easy", "f4+easy")
REPLICAS, SHAKES, TRIALS, SIZE = 12, 4, 400, 1024
COUNTS = (7, 15, 35, 70)
MORE, WHOLE = ("HPC2N", "lublin_256"), 24  # logs of the continuous replays, beside; replays of each


def measured(log: jw.Workload, rule: str) -> np.ndarray:
    """[W, REPLICAS] mean bounded slowdowns of all windows of a log."""
    rows, shake_s = windows.begins(0, len(log), SIZE), windows.shake_for(log)
    found = []
    for row in rows:
        parts = windows.shifted(log, int(row), SIZE, REPLICAS, shake_s, 0)
        found.append([windows.numbers(simulate(x, rule))["bounded_slowdown"] for x in parts])
    return np.array(found)


def drawn(rng: np.random.Generator, total: int, count: int, consecutive: bool) -> np.ndarray:
    """Rows of `count` windows of `total`: blocks of two drawn with replacement, or one run of neighbours."""
    if consecutive:
        first = rng.integers(total - count + 1)
        return np.arange(first, first + count)
    first = 2 * rng.integers(0, total // 2, (count + 1) // 2)
    return np.stack([first, first + 1], axis=1).ravel()[:count]


def wrong(x: dict[str, np.ndarray], count: int, consecutive: bool) -> tuple[list[float], list[float], list[float]]:
    """(shares of false claims, of intervals that hold the truth, of those of the ratio of totals) for each rule, each pair."""
    rng, total = np.random.default_rng(count), len(x[RULES[0]])
    false, held, held_totals = [], [], []
    for rule in RULES:
        claims = 0
        for _ in range(TRIALS):
            rows = drawn(rng, total, count, consecutive)
            sides = rng.permuted(np.tile(np.arange(REPLICAS), (len(rows), 1)), axis=1)
            one, other = (
                np.take_along_axis(x[rule][rows], k, axis=1) for k in (sides[:, :SHAKES], sides[:, SHAKES : 2 * SHAKES])
            )
            claims += effect(in_blocks(log_ratio(one, other)), least=2).p < 0.05
        false.append(claims / TRIALS)
    for a, b in combinations(RULES, 2):
        truth = float(log_ratio(x[a], x[b]).mean())
        ratio = float(x[b].mean() / x[a].mean())
        hold = hold_totals = 0
        for _ in range(TRIALS // 2):
            rows, some = drawn(rng, total, count, consecutive), rng.permutation(REPLICAS)[:SHAKES]
            one, other = x[a][rows][:, some], x[b][rows][:, some]
            e = effect(in_blocks(log_ratio(one, other)), least=2)
            hold += e.low <= np.exp(truth) - 1 <= e.high
            low, high = ratio_interval(one.mean(axis=1), other.mean(axis=1))
            hold_totals += low <= ratio <= high
        held.append(hold / (TRIALS // 2))
        held_totals.append(hold_totals / (TRIALS // 2))
    return false, held, held_totals


def continuous(log: jw.Workload, rule: str) -> np.ndarray:
    """[WHOLE, B] bounded slowdown in blocks of as many jobs of time-shifted continuous replays, as `compare` cuts them."""
    shake_s, blocks = windows.shake_for(log), max(len(windows.begins(0, len(log), SIZE)) // 2, 1)
    return np.array([windows.in_time(simulate(shake(log, shake_s, [0, k]), rule), blocks) for k in range(WHOLE)])


def wrong_continuous(x: np.ndarray, mended: bool) -> tuple[float, float]:
    """(share of intervals without 0, share of claims) of a rule against itself, SHAKES replays of [WHOLE, B] on either side."""
    rng, false, claimed = np.random.default_rng(0), 0, 0
    for _ in range(TRIALS):
        sides = rng.permutation(len(x))
        one, other = (x[sides[k : k + SHAKES]] for k in (0, SHAKES))
        e = intervals.continuous(one, other, least=2) if mended else effect(log_ratio(one.T, other.T), least=2)
        false += e.p < 0.05
        claimed += claims([e])[0]
    return false / TRIALS, claimed / TRIALS


def covered_continuous(of: dict[str, np.ndarray], count: int, mended: bool) -> tuple[float, float, float]:
    """(coverage, of the worst pair, mean width of the logarithm's interval) of runs of `count` neighbouring blocks, of SHAKES
    replays [WHOLE, B] of each rule, against the mean over all blocks; all pairs of rules."""
    held, widths = [], []
    for a, b in combinations(of, 2):
        one, other = of[a][:SHAKES], of[b][:SHAKES]
        truth, hits = float(np.log(other / one).mean()), []
        for k in range(one.shape[1] - count + 1):
            x, y = one[:, k : k + count], other[:, k : k + count]
            e = intervals.continuous(x, y) if mended else effect(log_ratio(x.T, y.T))
            hits.append(e.low <= np.exp(truth) - 1 <= e.high)
            widths.append(np.log1p(e.high) - np.log1p(max(e.low, -1 + 1e-9)))
        held.append(np.mean(hits))
    return float(np.mean(held)), float(np.min(held)), float(np.mean(widths))


def over_logs(rng: np.random.Generator, between: float, logs: int, trials: int = 2000) -> tuple[float, float]:
    """(false claims, coverage) of effects pooled over logs whose true effects vary by `between`, each known to 0.05 to 0.3."""
    false = held = 0
    for _ in range(trials):
        error = rng.uniform(0.05, 0.3, logs)
        seen = rng.normal(0, between, logs) + rng.normal(0, error)
        e = pooled([Effect(0, 0, 0, 0, 0, y, s, 9) for y, s in zip(seen, error, strict=True)])
        false += e.p < 0.05
        held += e.low <= 0 <= e.high
    return false / trials, held / trials


def seeds_and_blocks(rng: np.random.Generator, seeds: int, between: float, blocks: int = 14) -> tuple[float, float]:
    """(false claims, mean width of the interval of the logarithm) where blocks differ by 0.3, seeds by `between`."""
    trials, false, width = 2000, 0, 0.0
    for _ in range(trials):
        d = rng.normal(0, between, (seeds, 1)) + rng.normal(0, 0.3, (1, blocks)) + rng.normal(0, 0.1, (seeds, blocks))
        e = intervals.crossed(d)
        false += e.p < 0.05
        width += np.log1p(e.high) - np.log1p(e.low)
    return false / trials, width / trials


def main(folder: Path) -> None:
    """Measure everything and write the table."""
    found = {}
    for name in LOGS:
        for path in sorted(folder.glob(f"{name}*")):
            log = jw.read_swf(path)
            print(f"replaying {log.name} …", flush=True)
            found[log.name] = {rule: measured(log, rule) for rule in RULES}
    rows = []
    for count in COUNTS:
        for consecutive in (False, True):
            logs = [x for x in found.values() if len(x[RULES[0]]) > count]
            if not logs:
                continue
            false, held, totals = (sum(parts, []) for parts in zip(*(wrong(x, count, consecutive) for x in logs), strict=True))
            blocks = max(count // 2, 1)
            rows.append(
                [f"{count}", f"{blocks}" + (" (not printed)" if blocks < 6 else ""), "one run" if consecutive else "at random"]
                + [
                    f"{np.mean(false):.1%}",
                    f"{np.max(false):.1%}",
                    f"{np.mean(held):.1%}",
                    f"{np.min(held):.1%}",
                    f"{np.mean(totals):.1%}",
                ]
            )
            print(" | ".join(rows[-1]), flush=True)
    rng, more = np.random.default_rng(0), []
    for logs in (3, 6, 9):
        for between in (0.0, 0.2):
            false, held = over_logs(rng, between, logs)
            more.append([f"{logs}", f"{between:g}", f"{false:.1%}", f"{held:.1%}"])
    apart = []
    for seeds, between in [(1, 0.0), *product((2, 3, 5), (0.0, 0.1, 0.3))]:
        false, width = seeds_and_blocks(rng, seeds, between)
        apart.append([f"{seeds}", f"{between:g}", f"{false:.1%}", f"{width:.2f}"])
    columns = [
        "windows",
        "blocks",
        "drawn",
        "false claims",
        "of the worst rule",
        "coverage",
        "of the worst pair",
        "coverage, ratio of totals",
    ]
    whole, covers = [], []
    for name in (*LOGS, *MORE):
        for path in sorted(folder.glob(f"{name}*")):
            log = jw.read_swf(path)
            print(f"replaying {log.name} continuously …", flush=True)
            every = {rule: continuous(log, rule) for rule in RULES}
            for count in (6, 8, 12, 20, 30):
                if 2 * count <= every[RULES[0]].shape[1]:
                    both = [covered_continuous(every, count, mended) for mended in (False, True)]
                    cells = [f"{cover:.1%} ({worst:.0%})" for cover, worst, _ in both] + [f"{width:.2f}" for *_, width in both]
                    covers.append([log.name, f"{count}", *cells])
            for rule, x in every.items():
                cells = [f"{share:.1%}" for mended in (False, True) for share in wrong_continuous(x, mended)]
                whole.append([log.name, rule, f"{x.shape[1]}", *cells])
    averages = [f"{np.mean([float(r[k].rstrip('%')) for r in whole]):.1f}%" for k in range(3, 7)]
    whole.append(["average", "", "", *averages])
    text = [
        "# Intervals, measured",
        "",
        f"{made('python -m benchmarks.intervals FOLDER')}: {len(found)} logs ({', '.join(found)}), {len(RULES)} rules and "
        "all their pairs, windows of "
        f"{SIZE:,} jobs, {SHAKES} of {REPLICAS} replicas, {TRIALS} trials a rule and {TRIALS // 2} a pair.",
        "",
        (__doc__ or "").split("\n\n", 2)[2].replace("\n", " ").strip(),
        "",
        *table(columns, rows),
        "",
        f"Blocks of continuous replays, a rule against itself: {SHAKES} of {WHOLE} time-shifted replays on either side, "
        f"none shared, {TRIALS} trials. *Plain*: Student's t over blocks. *As compare does it*: with the correlation of "
        "neighbouring "
        "blocks, for a congestion may outlast a block, and with the variance over replays, for a whole replay may go another "
        "way than the next. A claim needs sign flips, too, and six blocks:",
        "",
        *table(["log", "rule", "blocks", "plain: no 0 in it", "claim", "as compare does it: no 0 in it", "claim"], whole),
        "",
        f"Runs of neighbouring blocks of continuous replays, two different rules, {SHAKES} replays: how often the interval "
        "holds the mean over all blocks of the log, which is that of other times, too; of the worst pair in brackets; and the "
        "mean width of the logarithm's interval:",
        "",
        *table(["log", "blocks", "plain", "as compare does it", "width, plain", "width"], covers),
        "",
        "Effects pooled over logs (random effects, Hartung and Knapp's interval, never narrower than the usual "
        "one), 2,000 trials:",
        "",
        *table(["logs", "standard deviation between logs", "false claims", "coverage"], more),
        "",
        "Effects over seeds of a training and 14 blocks that differ by 0.3 (`crossed`, as the pages of studies have it), 2,000 "
        "trials. Two seeds are given one degree of freedom, on purpose:",
        "",
        *table(["seeds", "standard deviation between seeds", "false claims", "width of the logarithm's interval"], apart),
    ]
    (Path(__file__).parent / "INTERVALS.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_known_args()
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces/swf"))
