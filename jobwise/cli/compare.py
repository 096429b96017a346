"""`jobwise compare`: schedulers on the same jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import LogPart, Output, Parallel, Powered, Replay, grouped
from jobwise.cli.options import All, Log, check_outputs, in_slots, noticed, open_log, policy_option, times
from jobwise.cli.progress import progress
from jobwise.cli.tables import show
from jobwise.compare.against import against, to_dict
from jobwise.compare.comparison import REPLAYS, Comparison
from jobwise.compare.origins import origins
from jobwise.compare.procedure import both_ways
from jobwise.compare.shifting import Shifted, shifted
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.policies.recommended import NAME
from jobwise.report.comparison import check_day, result
from jobwise.report.origins import of_origins
from jobwise.workloads.transform import shake

DEFAULT = ["fcfs+easy", "sjf+easy", "saf+easy", "wfp3+easy", "unicef+easy", "f1+easy", "saf+easy+guard24h", "fcfs+conservative"]


@dataclass(frozen=True)
class Judging:
    """Judging: on which jobs schedulers are compared, and how often."""

    window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None
    split: Annotated[Optional[float], typer.Option("--split", help="Compare on the jobs behind this share, e.g. 0.7.")] = None
    max_wait: Annotated[
        Optional[str],
        typer.Option(
            "--max-wait", help="Only rules whose longest wait is at most 1.2x that of FCFS with EASY join (--split, --origins)."
        ),
    ] = None
    replicas: Annotated[int, typer.Option("--replicas", min=0, max=1000, help="Time-shifted replicas (of the log: 4).")] = 8
    jitter_s: Annotated[
        Optional[float], typer.Option("--jitter", min=0, help="Move submits by up to X s. [default: by the log's gaps]")
    ] = None
    origins: Annotated[
        Optional[int],
        typer.Option("--origins", min=1, max=6, help="Choose before t, judge the tenth after; t = 0.4 … 0.9."),
    ] = None
    all: All = False


@grouped
def compare(
    log: Log,
    policy: Annotated[
        Optional[list[str]],
        policy_option(help="Repeat it; the first is the reference. [default: rules]"),
    ] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
    part: LogPart = LogPart(),
    judging: Judging = Judging(),
    day: Annotated[Optional[float], typer.Option("--day", help="Day of the Gantt chart (default: the busiest).")] = None,
    replay: Replay = Replay(),
    power: Powered = Powered(),
    parallel: Parallel = Parallel(),
    output: Output = Output(),
) -> None:
    """Compare schedulers on the same jobs, with intervals.

    With --split the best rule and guard of the earlier jobs, and of the later ones in hindsight, join in; with --origins
    the rule chosen at each origin is the reference. Where many jobs outlive their request, both ways are shown.

    Examples:
        jobwise compare log.swf.gz -p fcfs+easy -p saf+easy
        jobwise compare log.swf.gz --split 0.7 --max-wait 1.2x --report out.html
    """
    bound, split, kill, as_json = _check(judging, day), judging.split, replay.end_at_limit, output.as_json
    resolved = [resolve(p) for p in policy or DEFAULT]
    if bound < float("inf") and "fcfs+easy" not in [p.name for p in resolved]:
        resolved.insert(0, resolve("fcfs+easy"))  # what the bound is a multiple of
    check_outputs(log, report, force=output.force, ending=".html .htm")
    w = open_log(log, part.procs, part.jobs, part.load, in_slots(resolved), replay.racks or "")
    w = power.of(replay.drawn(w), holds=any(p.shifts for p in resolved))
    settings = {"window_jobs": judging.window, "replicas": judging.replicas, "jitter_s": judging.jitter_s, "seed": replay.seed}
    settings |= {"kill_at_walltime": kill, "restart_cost_s": replay.restart_cost, "max_wait": bound}
    if report:
        check_day(w, day)
    if policy is None and power.cap is None and w.cluster.is_pool and not (w.jobs["unmet"] > 0).any():
        resolved.append(resolve("jobwise"))
    if not as_json:
        noticed(w)
    if judging.origins is not None:
        with parallel.workers():
            show(_rolled(w, resolved, judging.origins, settings).naming(LOG=log), as_json, report)
        return
    with progress(f"comparing {len(resolved)} schedulers") as step, parallel.workers():
        c, other = both_ways(w, resolved, since=split or 0.0, progress=step, trade_off=bool(report), **settings)
    beside = _shifted(c, resolved, replay.seed)
    learnt = [p for p, x in enumerate(resolved if split else []) if x.about or x.name == NAME]  # `jobwise` is in no rule table
    ours = learnt[-1] if learnt else 0
    judged = result(
        c,
        learnt=learnt,
        system=resolved[ours].about.get("system", "") if learnt else "",
        other=other,
        ended=kill,
        day=day if report else None,
        everything=judging.all,
        data=_beside_rules(c, learnt, bound) if split else {},
        shifted=beside,
    )
    show(judged.naming(LOG=log, RUN=c.policies[ours] if learnt else None), as_json, report)


def _shifted(c: Comparison, policies: list, seed: int) -> list[Shifted]:
    """The policies that hold jobs for cheaper hours, each beside nothing done, power-down alone and the oracle."""
    holding = [p for p in policies if p.shifts]
    logs = [shake(c.workload, c.jitter_s, [seed, k]) for k in range(min(c.replicas, REPLAYS))] or [c.workload]
    done, total = 0, 4 * len(logs) * len(holding)
    with progress("for cheaper hours") as show:

        def step(count: int) -> None:
            nonlocal done
            done += count
            if show:
                show(done, total)

        return [shifted(logs, p, seed, step) for p in holding]


def _beside_rules(c, learnt: list[int], bound: float) -> dict:
    """For JSON: the policies that were learnt against the best in hindsight and against the fair best."""
    both, names = against(c, learnt, bound), ("against_best_rule", "against_fair_best")
    return {name: [to_dict(c, x, bound) for pair in both if (x := pair[k]) is not None] for k, name in enumerate(names)}


def _check(j: Judging, day: float | None) -> float:
    """Return the bound on waits (inf: none). Raises InputError for options that do not go together."""
    if j.origins is not None and (j.split is not None or day is not None):
        raise InputError("--origins splits the log at each origin; --split and --day are for one comparison")
    if j.split is not None and not 0 < j.split < 1:
        raise InputError(f"--split {j.split:g}: a share of the jobs between 0 and 1 is expected, e.g. 0.7")
    if j.max_wait is not None and j.split is None and j.origins is None:
        raise InputError("--max-wait is about the rules that join with --split or --origins")
    return times(j.max_wait) or float("inf")


def _rolled(w, policies: list, count: int, settings: dict):
    """The result over all origins."""
    with progress(f"{count} origins, {len(policies)} schedulers") as step:
        o = origins(w, policies, count, progress=step, **settings)
    return of_origins(o)
