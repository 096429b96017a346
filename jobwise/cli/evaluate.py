"""`jobwise evaluate`: a trained policy against the rules, on jobs it has not seen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import numpy as np
import typer

from jobwise.cli.groups import LogPart, Output, grouped
from jobwise.cli.options import LOG_HELP, Kill, Run, Seed, check_outputs, noticed, open_log, progress
from jobwise.cli.tables import print_comparison, print_json, print_origins, print_table, say
from jobwise.errors import InputError
from jobwise.policies.files import short

if TYPE_CHECKING:
    from jobwise.policies.neural import NeuralPolicy


@dataclass(frozen=True)
class Judging:
    """On which jobs the policy is judged, and how often."""

    whole: Annotated[bool, typer.Option("--whole", help="The whole log, also what was learnt from.")] = False
    origins: Annotated[
        Optional[int],
        typer.Option("--origins", min=1, max=6, help="Train again before t = … 0.8, 0.9, judge on the next tenth."),
    ] = None
    window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None
    shakes: Annotated[Optional[int], typer.Option("--shakes", min=0, max=1000, help="Default: 4.")] = None
    kill: Kill = False

    @property
    def usual(self) -> bool:
        """True where nothing was asked for."""
        return self == Judging()


@grouped
def evaluate(
    run: Run,
    log: Annotated[Optional[str], typer.Argument(metavar="LOG", help=f"{LOG_HELP} deeprm and cush: generated.")] = None,
    policy: Annotated[Optional[list[str]], typer.Option("--policy", "-p", help="Rules to compare with.")] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
    judging: Judging = Judging(),
    part: LogPart = LogPart(),
    seed: Seed = 0,
    output: Output = Output(),
) -> None:
    """Compare a trained policy with the rules on the part of a log that it has not seen (the last 30 %)."""
    from jobwise.compare.against import against, verdicts
    from jobwise.compare.answer import other_way
    from jobwise.compare.baselines import rules
    from jobwise.compare.procedure import both_ways
    from jobwise.policies.names import resolve_trained
    from jobwise.workloads.transform import SEEN, unseen

    if Path(run).is_file() and not run.endswith(".safetensors") and log is not None:
        raise InputError(f"the run comes first: jobwise evaluate {log} {run}")
    trained, name = resolve_trained(run)
    if getattr(trained, "jobsets", False):
        if not (judging.usual and part.whole):
            raise InputError(f"{run}: plays on a grid of time; only --policy, --seed and --json are for it")
        _on_slots(trained, log, policy, report, seed, output.as_json)
        return
    whole, origins, kill, as_json = judging.whole, judging.origins, judging.kill, output.as_json
    if log is None:
        raise InputError(f"on which log? jobwise evaluate {run} LOG")
    if origins is not None and (whole or report):
        raise InputError("--origins trains again and prints one table; --whole and --report are for one comparison")
    check_outputs(log, report, force=output.force, ending=".html .htm")
    names = policy or rules(trained)
    w = open_log(log, part.procs, part.jobs, part.load)
    if len(w if whole else unseen(w)) < 8:
        raise InputError(f"{w.name}: {len(unseen(w))} unseen jobs are too few to compare anything on")
    about = trained.about
    bound = about.get("max_wait") or float("inf")
    if bound < float("inf") and "fcfs+easy" not in names:
        names = ["fcfs+easy", *names]  # what the bound is a multiple of
    settings = {
        "max_wait": bound,
        "window_jobs": judging.window,
        "shakes": 4 if judging.shakes is None else judging.shakes,
        "seed": seed,
    }
    settings |= {"kill_at_walltime": kill}
    if not as_json:
        noticed(w)
    if origins is not None:
        _origins(name, w, names, origins, settings, as_json)
        return
    with progress(f"comparing {len(names) + 1} schedulers") as show:
        c, other = both_ways(w, [*names, trained], since=0.0 if whole else SEEN, progress=show, **settings)
    best, fair = against(c, [len(names)], bound)[0]
    said, beside = verdicts(c, [len(names)], bound), other_way(c, other, kill, len(names)) if other else ""
    if report:
        from jobwise.report.comparison import write_report

        curve = Path(name) / "metrics.jsonl"
        curve = curve if curve.is_file() else None
        write_report(c, report, curve=curve, other=other, beside=beside, ours=len(names), said=said, force=True)
    if as_json:
        more = {"other_way": other.to_dict()} if other else {}
        print_json(c.to_dict() | {"against_best_rule": best, "against_fair_best": fair} | more)
        return
    print_comparison(c, said, beside)
    if report:
        print(f"report: {report}")


def _origins(folder: str, w, names: list[str], count: int, settings: dict, as_json: bool) -> None:
    """Train the system of a run folder anew before every origin, and compare."""
    from dataclasses import replace

    from jobwise.compare.origins import origins
    from jobwise.systems.search import Config, train

    try:
        about = dict(json.loads((Path(folder) / "run.json").read_text())["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: --origins trains again and needs the run folder with its run.json ({error})") from None
    if about.get("system") != "search":
        raise InputError(f"{folder}: --origins trains search anew, not {about.get('system')}; a network takes too long")
    settings = Config().changed(**about)

    def learn(part, t: float):
        policy = train(settings, part, Path(folder) / f"origin{t:g}", resume=True, share=1.0)[0]
        return replace(policy, label="search")

    with progress(f"{count} origins, a search at each") as show:
        o = origins(w, names, count, learn=learn, progress=show, **settings)
    if as_json:
        print_json(o.to_dict())
    else:
        print_origins(o)


def _on_slots(
    policy: NeuralPolicy, log: str | None, rules: list[str] | None, report: str | None, seed: int, as_json: bool
) -> None:
    """Play jobsets that the policy has not seen, and print it beside the rules."""
    from jobwise.learn.judged import change
    from jobwise.systems import config_of
    from jobwise.workloads.jobsets import TEST

    if report:
        raise InputError("a report of such a policy is written by `jobwise reproduce`: deeprm, cush, rl-taps, telemetry")
    config = config_of(policy)
    config.checked_log(log, policy.label)
    sets = config.sets(TEST, 100, None if log is None else open_log(log, None, on_nodes=True))
    names, results = rules or config.rules(), {}
    with progress(f"playing {len(sets)} jobsets") as show:
        for i, name in enumerate([*names, policy]):
            key = name if isinstance(name, str) else policy.label
            results[key] = config.judged(sets, name, seed, policy.tick)
            if show:
                show(i + 1, len(names) + 1, key)
    plain = [n for n in names if not n.endswith("typed")] or names
    best = min(plain, key=lambda n: np.mean(results[n]["slowdown"]))
    changes = {n: change(x["slowdown"], results[best]["slowdown"], windows=config.logged) for n, x in results.items()}
    if as_json:
        keep = ("slowdown", "longest", "stretch", "lost")
        mean = {n: {k: float(np.mean(x[k])) for k in keep} for n, x in results.items()}
        print_json(
            {
                "policy": policy.label,
                "best_rule": best,
                "jobsets": len(sets),
                "policies": mean,
                "change": {n: e.to_dict() for n, e in changes.items()},
                "notes": [x for x in [short(policy.about)] if x],
            }
        )
        return
    rows = []
    for n, x in results.items():
        c = changes[n]
        rows.append(
            [
                n,
                f"{np.mean(x['slowdown']):.3f}",
                "" if n == best else c.text("+.1%"),
                f"{np.mean(x['longest']):.1f}",
                f"{np.mean(x['stretch']):.3f}",
                f"{sum(x['lost'])}",
            ]
        )
    columns = ["policy", config.measure.split(" (")[0], f"against {best}", "longest wait, rows", config.aside, "jobs not done"]
    print_table(f"{len(sets)} unseen jobsets: {config.measure}", columns, rows)
    if note := short(policy.about):
        say(f"note: {policy.label} {note}")
