"""`jobwise compare`: schedulers on the same jobs."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from jobwise.cli.options import (
    Force,
    Jobs,
    Json,
    Kill,
    Load,
    Log,
    Procs,
    Racks,
    RestartCost,
    Seed,
    check_outputs,
    in_slots,
    noticed,
    open_log,
    progress,
    times,
)
from jobwise.cli.tables import print_comparison, print_json, print_origins
from jobwise.errors import InputError

DEFAULT = ["fcfs+easy", "sjf+easy", "saf+easy", "wfp3+easy", "unicef+easy", "f1+easy", "saf+easy+guard24h", "fcfs+conservative"]


def compare(
    log: Log,
    policy: Annotated[
        Optional[list[str]],
        typer.Option("--policy", "-p", help="Repeat it; the first is the reference. [default: rules, and `jobwise`]"),
    ] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    kill: Kill = False,
    window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None,
    split: Annotated[
        Optional[float], typer.Option("--split", help="Compare on what comes after this share of the jobs, e.g. 0.7.")
    ] = None,
    max_wait: Annotated[
        Optional[str],
        typer.Option("--max-wait", help="With --split or --origins: rules whose longest wait is 1.2x that of FCFS with EASY."),
    ] = None,
    shakes: Annotated[
        int, typer.Option("--shakes", min=0, max=1000, help="Shaken replicas of windows, and of the log (at most 4).")
    ] = 8,
    shake_s: Annotated[
        Optional[float], typer.Option("--shake-s", min=0, help="Move submits by so many seconds. [default: by the log's gaps]")
    ] = None,
    origins: Annotated[
        Optional[int],
        typer.Option(
            "--origins", min=1, max=6, help="Choose on the jobs before t, judge on the tenth after it; t = 0.4 … 0.9."
        ),
    ] = None,
    day: Annotated[Optional[float], typer.Option("--day", help="Day of the Gantt chart (default: the busiest).")] = None,
    force: Force = False,
    racks: Racks = None,
    restart_cost: RestartCost = 0.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare schedulers on the same jobs: the whole log and windows of it, with intervals.

    With --split the best rule and guard of the earlier jobs, and of the later ones in hindsight, join in; with --origins
    the rule chosen at each origin is the reference. Where many jobs outlive their request, both ways are shown.
    """
    from jobwise.compare.against import verdicts
    from jobwise.compare.answer import answer, other_way
    from jobwise.compare.procedure import both_ways
    from jobwise.policies.names import resolve

    bound = _check(origins, split, report, max_wait)
    resolved = [resolve(p) for p in policy or DEFAULT]
    if bound < float("inf") and "fcfs+easy" not in [p.name for p in resolved if hasattr(p, "name")]:
        resolved.insert(0, resolve("fcfs+easy"))  # what the bound is a multiple of
    check_outputs(log, report, force=force, ending=".html .htm")
    w = open_log(log, procs, jobs, load, in_slots(resolved), racks or "")
    settings = {"window_jobs": window, "shakes": shakes, "shake_s": shake_s, "seed": seed, "kill_at_walltime": kill}
    settings |= {"restart_cost_s": restart_cost, "max_wait": bound}
    if policy is None and w.cluster.is_pool and not (w.jobs["unmet"] > 0).any():
        resolved.append(resolve("jobwise"))
    if not as_json:
        noticed(w)
    if origins is not None:
        _rolled(w, resolved, origins, settings, as_json)
        return
    with progress(f"comparing {len(resolved)} schedulers") as show:
        c, other = both_ways(w, resolved, since=split or 0.0, progress=show, **settings)
    learnt = [p for p, x in enumerate(resolved if split else []) if getattr(x, "about", None)]
    said, beside = verdicts(c, learnt, bound), other_way(c, other, kill, learnt[0] if learnt else None) if other else ""
    if report:
        from jobwise.report.comparison import write_report

        with progress("drawing the report") as show:
            ours = learnt[0] if learnt else None
            write_report(c, report, day=day, other=other, beside=beside, ours=ours, said=said, force=True, progress=show)
    if as_json:
        more = {"answer": said or answer(c)} | ({"other_way": other.to_dict()} if other else {})
        print_json(c.to_dict() | more | (_beside_rules(c, learnt, bound) if split else {}))
        return
    print_comparison(c, said, beside)
    if report:
        print(f"report: {report}")


def _beside_rules(c, learnt: list[int], bound: float) -> dict:
    """For JSON: the policies that were learnt against the best in hindsight and against the fair best."""
    from jobwise.compare.against import against

    effects = against(c, learnt, bound)
    names = ("against_best_rule", "against_fair_best")
    return {
        name: [{"policy": c.policies[p]} | x[k] for p, x in zip(learnt, effects, strict=True) if x[k]]
        for k, name in enumerate(names)
    }


def _check(origins: int | None, split: float | None, report: str | None, max_wait: str | None) -> float:
    """The bound on waits (inf: none). Raises InputError for options that do not go together."""
    if origins is not None and (split is not None or report):
        raise InputError("--origins prints one table over all origins; --split and --report are for one comparison")
    if split is not None and not 0 < split < 1:
        raise InputError(f"--split {split:g}: a share of the jobs between 0 and 1 is expected, e.g. 0.7")
    if max_wait is not None and split is None and origins is None:
        raise InputError("--max-wait is about the rules that join with --split or --origins")
    return times(max_wait) or float("inf")


def _rolled(w, policies: list, count: int, settings: dict, as_json: bool) -> None:
    """One table over all origins."""
    from jobwise.compare.origins import origins

    with progress(f"{count} origins, {len(policies)} schedulers") as show:
        o = origins(w, policies, count, progress=show, **settings)
    if as_json:
        print_json(o.to_dict())
    else:
        print_origins(o)
