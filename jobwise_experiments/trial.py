"""Trial runs: what they are worth beside the best rules, guards, lanes and deadlines; who must take part, and at what cost.

All logs of the folder. What is chosen is chosen on the first 60 % of each, and judged on four later tenths: whole continuous
replays, four time-shifted ones and the log itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from jobwise.compare import windows
from jobwise.compare.intervals import Effect, compared, effect, pooled
from jobwise.compare.procedure import compare
from jobwise.errors import InputError
from jobwise.learn.probe import probe
from jobwise.metrics import bounded_slowdown, wait
from jobwise.parallel import Shared, current
from jobwise.policies.recommended import PROMISE
from jobwise.record import Record
from jobwise.report.figures import forest
from jobwise.report.sections import Section
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.workload import Workload, shake
from jobwise.workloads.transform import SEEN, first, restartable
from jobwise_experiments.promise import BUSY, DEEP
from jobwise_experiments.study import Study, files_of

EARLIER, ORIGINS, TENTH = 0.6, (0.6, 0.7, 0.8, 0.9), 0.1  # shares of a log
RULES = ("fcfs", "saf", "sjf", "f4", "lxf", "smith-aged")
UNDER = ("", *(f"+guard{h}h" for h in (24, 48, 72)), *(f"+{x}promise{PROMISE:g}x" for x in ("", "express2%+", "express5%+")))
WITHOUT = tuple(f"{rule}+easy{under}" for rule in RULES for under in UNDER)
WITH = tuple(f"{name}+trial" for name in WITHOUT)
BASE, OURS, PLAIN = "fcfs+easy", "jobwise+trial", "jobwise"
CANDIDATES = (
    PLAIN,
    OURS,
    *(f"jobwise+{t}" for t in ("trial10s", "trial600s", "trial1%", "trial3%", "trial5%")),
    *(f"smith-aged+easy+express5%+promise1.2x{t}" for t in ("", "+trial", "+trial3%")),
    *(f"{rule}+easy+express2%+promise1.2x+trial" for rule in RULES[:-1]),
    *(f"{rule}+easy+guard48h+trial" for rule in RULES),
)
ENOUGH = 0.9  # of the replays, in which a rule must keep the longest wait
SHARES, COSTS = (0.0, 0.1, 0.3, 0.5, 1.0), (0.0, 30.0, 300.0)
TAKING = ("jobwise+trial", "jobwise+trial3%")
IN_WINDOWS = ("saf+easy", PLAIN, OURS)
BESIDE = ("saf+easy", "saf+easy+trial", OURS)  # the agent


def study(s: Study) -> list[Section]:
    """What was chosen; against the best without; who takes part; first come, first served; in windows. Raises InputError."""
    logs = [_named(s, x) for x in _starts(s)]
    return s.parts(*(partial(part, logs=logs) for part in (chosen, later, shares, first_come, in_windows, agent)))


def _starts(s: Study) -> list[str]:
    every = sorted({p.name for p in files_of(s.logs, "") if ".swf" in p.name})
    if not every:
        raise InputError(f"{s.logs}: there are no SWF logs")
    return [x for x in every if x.startswith("SDSC-SP2")] or every[:1] if s.smoke else every


def _named(s: Study, name: str) -> Workload:
    log = s.log(name, smoke=1500)
    deep = next((n for start, n in DEEP.items() if name.startswith(start)), len(log))
    return first(log, min(len(log), deep))


def _replicas(s: Study, w: Workload, count: int) -> list[Workload]:
    shift = windows.shake_for(w)
    return [w, *(shake(w, shift, [0, k]) for k in range(0 if s.smoke else count - 1))]


def twice(r: Record) -> float:
    """The share of the work that was done twice."""
    return r.lost / float((r.runtime * r.jobs["request"][:, 0]).sum())


def _numbers(replicas: Shared, blocks: int, more: dict, policy: str) -> dict[str, Any]:
    """What a policy does on replicas: logs of mean bounded slowdowns by blocks of time, means, longest waits (s), work done
    twice."""
    records = [simulate(w, policy, **more) for w in replicas.get()]
    return {
        "blocks": np.log(np.mean([windows.in_time(r, blocks) for r in records], axis=0)).tolist(),
        "mean": float(np.mean([bounded_slowdown(r).mean() for r in records])),
        "longest": [float(max(wait(r).max(), 1.0)) for r in records],
        "wait": float(np.mean([wait(r).mean() for r in records])),
        "twice": float(np.mean([twice(r) for r in records])),
    }


def _all(replicas: Sequence[Workload], names: Sequence[str], **more: Any) -> dict[str, dict]:
    blocks = max(len(replicas[0]) // windows.size_for(len(replicas[0])) // 2, 1)
    with current() as workers:
        work = partial(_numbers, workers.put(list(replicas)), blocks, more)
        return dict(zip(names, workers.map(work, names), strict=True))


def _busy(results: dict[str, dict]) -> list[str]:
    return [log for log, x in results.items() if x[BASE]["mean"] >= BUSY] or list(results)


def _kept(ours: dict, base: dict) -> float:
    """The share of replays whose longest wait is at most PROMISE times that of the base."""
    return float((np.array(ours["longest"]) <= PROMISE * np.array(base["longest"])).mean())


def _change(ours: dict, base: dict) -> Effect:
    return effect(np.array(ours["blocks"]) - np.array(base["blocks"]))


def _over(effects: list[Effect]) -> Effect:
    return pooled(effects) if len(effects) > 1 else effects[0]


# ------------------------------------------------------------------ the parts


def chosen(s: Study, logs: list[Workload]) -> Section:
    """Candidates on the earlier part of each log."""
    names = s.pick(CANDIDATES[:2], CANDIDATES, CANDIDATES)

    def one(w: Workload) -> dict:
        return _all(_replicas(s, w.take(slice(0, int(EARLIER * len(w)))), 3), [BASE, *names])

    results = {w.name: s.piece(f"chosen-{w.name}", one, w) for w in logs}
    busy, rows = _busy(results), []
    for n in names:
        x = [(results[log][n], results[log][BASE]) for log in busy]
        mean = float(np.exp(np.mean([np.log(ours["mean"] / base["mean"]) for ours, base in x]))) - 1
        longest = max(float((np.array(ours["longest"]) / np.array(base["longest"])).max()) for ours, base in x)
        rows.append([n, mean, float(np.mean([_kept(*pair) for pair in x])), longest, max(ours["twice"] for ours, _ in x)])
    return s.section("What to choose, on earlier jobs", rows, count=len(busy), bound=PROMISE)


def _tenths(s: Study, w: Workload, names: Sequence[str]) -> dict:
    """The later tenths of a log, put together."""
    out: dict[str, dict] = {}
    for t in s.pick(ORIGINS[-1:], ORIGINS, ORIGINS):
        part = w.take(slice(int(t * len(w)), int(round((t + TENTH) * len(w)))))
        for n, x in _all(_replicas(s, part, 5), names).items():
            y = out.setdefault(n, {"blocks": [], "longest": [], "mean": [], "wait": [], "twice": []})
            for key, value in x.items():
                y[key] += value if isinstance(value, list) else [value]
    return {n: x | {k: float(np.mean(x[k])) for k in ("mean", "wait", "twice")} for n, x in out.items()}


def _best(x: dict, names: Sequence[str]) -> str:
    """The name with the least slowdown of those that keep the longest wait in ENOUGH of the replays, in hindsight."""
    careful = [n for n in names if n in x and _kept(x[n], x[BASE]) >= ENOUGH] or [BASE]
    return min(careful, key=lambda n: float(np.mean(x[n]["blocks"])))


def later(s: Study, logs: list[Workload]) -> Section:
    """Against the best rule without trial runs, in hindsight."""
    without, having = (s.pick(names[:2], names, names) for names in (WITHOUT, WITH))
    names = tuple(dict.fromkeys([BASE, *without, *having, PLAIN, OURS]))
    results = {w.name: s.piece(f"later-{w.name}", _tenths, s, w, names) for w in logs}
    best: dict[str, tuple[str, ...]] = {}
    for log, x in results.items():
        best[log] = tuple(_best(x, names) for names in ([*without, PLAIN], [*having, OURS]))
    rows: list[list[Any]] = []
    drawn: dict[str, dict[str, Effect]] = {PLAIN: {}, OURS: {}}
    for log, x in results.items():
        base, rule = best[log]
        effects = [_change(x[n], x[base]) for n in (PLAIN, rule, OURS)]
        cells = [x[BASE]["mean"], f"{base} {x[base]['mean']:.2f}", effects[0], f"{rule} {effects[1].text()}", effects[2]]
        rows.append([log, *cells, *(_kept(x[n], x[BASE]) for n in (PLAIN, OURS)), x[OURS]["twice"]])
        drawn[PLAIN][log], drawn[OURS][log] = effects[0], effects[2]
    busy = _busy(results)
    pool = [
        _over([_change(results[log][n(log)], results[log][best[log][0]]) for log in busy])
        for n in (lambda log: PLAIN, lambda log: best[log][1], lambda log: OURS)
    ]
    kept = [float(np.mean([_kept(results[log][n], results[log][BASE]) for log in busy])) for n in (PLAIN, OURS)]
    rows.append([f"all {len(busy)} busy logs", "", "", *[e.text() for e in pool], *kept, ""])
    drawn[PLAIN]["all busy logs"], drawn[OURS]["all busy logs"] = pool[0], pool[2]
    figure = forest(drawn, "change of the slowdown against the best rule without trial runs")
    return s.section("Against the best rules without trial runs", rows, figures=[figure], bound=PROMISE, rules=len(without))


def shares(s: Study, logs: list[Workload]) -> Section:
    """How many must take part, and what a restart may cost."""
    some = s.pick(((1.0, 0.0),), *[[(x, c) for x in SHARES for c in (COSTS if x == 1.0 else COSTS[:1])]] * 2)

    def one(w: Workload) -> dict:
        base = _all(_replicas(s, w, 2), [BASE])[BASE]
        out = {}
        for share, cost in some:
            drawn = [restartable(x, share) for x in _replicas(s, w, 2)]
            out[f"{share:g} {cost:g}"] = _all(drawn, TAKING, restart_cost_s=cost)
        return {BASE: base, "taking": out}

    results = {w.name: s.piece(f"shares-{w.name}", one, w) for w in logs}
    busy, rows = _busy(results), []
    for share, cost in some:
        cells: list[Any] = []
        for n in TAKING:
            x = [(results[log]["taking"][f"{share:g} {cost:g}"][n], results[log][BASE]) for log in busy]
            cells.append(float(np.exp(np.mean([np.log(ours["mean"] / base["mean"]) for ours, base in x]))) - 1)
            cells.append(max(float((np.array(ours["longest"]) / np.array(base["longest"])).max()) for ours, base in x))
            cells.append(float(np.mean([ours["twice"] for ours, _ in x])))
        rows.append([share, f"{cost:g}", *cells])
    return s.section("Who takes part, and what a restart costs", rows, count=len(busy))


def first_come(s: Study, logs: list[Workload]) -> Section:
    """First come, first served with EASY, and nothing else: who starts later?"""

    def one(w: Workload, kill: bool) -> dict:
        plain, tried = (simulate(w, n, kill_at_walltime=kill) for n in (BASE, f"{BASE}+trial"))
        later = tried.jobs["start"] - plain.jobs["start"]
        span = tried.jobs["end"].max()
        return {
            "mean": [float(bounded_slowdown(r).mean()) for r in (plain, tried)],
            "longest": float(wait(tried).max() / max(wait(plain).max(), 1.0)),
            "later": float((later > 0).mean()),
            "most": float(later.max() / span),
            "counts": [tried.trials, tried.shown, tried.preemptions],
            "twice": twice(tried),
        }

    rows = []
    for w in logs:
        for way, kill in {"run on": False, "ended": True}.items():
            x = s.piece(f"first-come-{way.replace(' ', '-')}-{w.name}", one, w, kill)
            begun, shown, stopped = x["counts"]
            change = x["mean"][1] / x["mean"][0] - 1
            rows.append([w.name, way, *x["mean"], change, x["longest"], begun, shown, stopped, x["twice"], x["later"]])
    return s.section("First come, first served with EASY, and trial runs", rows)


def in_windows(s: Study, logs: list[Workload]) -> Section:
    """Windows of the last 30 %."""

    def one(w: Workload) -> dict[str, list]:
        c = compare(w, [BASE, *IN_WINDOWS], since=SEEN, replicas=s.pick(1, 3, 3), hindsight=False, earlier=False)
        return {n: c.windows["bounded_slowdown"][k].tolist() for k, n in enumerate(c.policies)}

    results = {w.name: s.piece(f"windows-{w.name}", one, w) for w in logs}
    rows: list[list[Any]] = []
    for log, x in results.items():
        effects = [compared(np.array(x[BASE]), np.array(x[n])) for n in IN_WINDOWS]
        rows.append([log, float(np.mean(x[BASE])), *effects, compared(np.array(x[PLAIN]), np.array(x[OURS]))])
    return s.section("In windows", rows, policies=IN_WINDOWS)


def agent(s: Study, logs: list[Workload]) -> Section:
    """A network that also chooses who is tried, beside rules, on SDSC-SP2 (or the first log)."""
    log = next((w for w in logs if w.name.startswith("SDSC-SP2")), logs[0])

    def one() -> dict:
        policy = s.train(configure("perjob", log, s.preset).changed(trials=True), log, "agent")
        c = compare(log, [BASE, *BESIDE, policy], since=SEEN, replicas=s.pick(1, 3, 3), hindsight=False, earlier=False)
        use = probe(policy, log)
        told = {"word": use.word, "twin": use.twin, "other": use.exchanged[""].text(), "against": use.against_twin.text()}
        x = {n: c.windows["bounded_slowdown"][k].tolist() for k, n in enumerate((BASE, *BESIDE, "agent"))}
        return {"windows": x, "use": told, "choices": int(policy.about["choices"])}

    x = s.piece("agent", one)
    every = {n: np.array(values) for n, values in x["windows"].items()}
    rows = [[n, float(v.mean()), "" if n == "agent" else compared(v, every["agent"])] for n, v in every.items()]
    told = x["use"]
    use = f"{told['word']}: states of other moments {told['other']}, its best constant twin ({told['twin']}) {told['against']}"
    return s.section("An agent that chooses who is tried", rows, log=log.name, use=use, choices=f"{x['choices']:,}")
