"""`jobwise evaluate`: a trained policy against the rules, on jobs it has not seen."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.groups import LogPart, Output, Parallel, grouped
from jobwise.cli.options import LOG_HELP, All, EndAtLimit, Run, Seed, check_outputs, noticed, open_log, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import show
from jobwise.compare.against import against, to_dict
from jobwise.compare.baselines import rules
from jobwise.compare.origins import origins
from jobwise.compare.procedure import both_ways
from jobwise.errors import InputError
from jobwise.learn.judged import on_jobsets
from jobwise.learn.probe import probe
from jobwise.policies.names import resolve_trained
from jobwise.report.comparison import result
from jobwise.report.jobsets import of_jobsets
from jobwise.report.origins import of_origins
from jobwise.report.result import Result
from jobwise.systems import config_of
from jobwise.systems.search import SearchConfig
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TEST
from jobwise.workloads.transform import SEEN, unseen


@dataclass(frozen=True)
class Evaluating:
    """Judging: on which jobs the policy is judged, and how often."""

    whole: Annotated[bool, typer.Option("--whole", help="The whole log, also what was learnt from.")] = False
    origins: Annotated[
        Optional[int],
        typer.Option("--origins", min=1, max=6, help="Train again before t = … 0.8, 0.9, judge on the next tenth."),
    ] = None
    window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None
    replicas: Annotated[Optional[int], typer.Option("--replicas", min=0, max=1000, help="Default: 4.")] = None
    end_at_limit: EndAtLimit = False
    all: All = False

    @property
    def usual(self) -> bool:
        """True where nothing was asked for."""
        return self == Evaluating()


@dataclass(frozen=True)
class Question:
    """One question: how good is this trained policy, on these jobs, beside these rules?"""

    run: str
    policy: Any
    folder: str
    log: str | None
    rules: list[str] | None
    judging: Evaluating
    part: LogPart
    seed: int
    quiet: bool

    @cached_property
    def workload(self) -> Workload | None:
        """The log, read once: it may be standard input. None: jobs are generated."""
        if self.log is None:
            return None
        return open_log(self.log, self.part.procs, self.part.jobs, self.part.load, self.policy.on_nodes)


@grouped
def evaluate(
    run: Run,
    log: Annotated[Optional[str], typer.Argument(metavar="LOG", help=f"{LOG_HELP} None: generated jobs.")] = None,
    policy: Annotated[Optional[list[str]], policy_option(help="Rules to compare with.")] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
    judging: Evaluating = Evaluating(),
    part: LogPart = LogPart(),
    seed: Seed = 0,
    parallel: Parallel = Parallel(),
    output: Output = Output(),
) -> None:
    """Compare a trained policy with rules on later jobs. These are the last 30 % of a log, which it was not trained on.

    Examples:
        jobwise evaluate runs/mine log.swf.gz
        jobwise evaluate runs/mine log.swf.gz --report mine.html
    """
    if Path(run).is_file() and not run.endswith(".safetensors") and log is not None:
        raise InputError(f"the run comes first: jobwise evaluate {log} {run}")
    trained, folder = resolve_trained(run)
    asked = Question(
        run=run,
        policy=trained,
        folder=folder,
        log=log,
        rules=policy,
        judging=judging,
        part=part,
        seed=seed,
        quiet=output.as_json,
    )
    check_outputs(log or "-", report, force=output.force, ending=".html .htm")
    answered = _on_jobsets if trained.jobsets else _on_log if judging.origins is None else _at_origins
    with parallel.workers():
        answer = answered(asked)
    if trained.looks:
        answer = _with_state_use(answer, asked)
    show(answer.naming(LOG=log, RUN=run), output.as_json, report)


def _with_state_use(answer: Result, asked: Question) -> Result:
    """The same answer, and how much the network depends on the state that it is shown; or why that is not known."""
    try:
        with progress("playing with states of other moments") as step:
            use = probe(asked.policy, asked.workload, seed=asked.seed, progress=step)
        sentence, numbers = use.sentence(), use.to_dict()
    except InputError as error:
        sentence, numbers = f"Whether it uses the state is not known: {error}.", None
    data = answer.data() if callable(answer.data) else answer.data
    return replace(answer, answer=[*answer.answer, sentence], data=data | {"state_use": numbers})


def _jobs(asked: Question) -> tuple[Any, list[str], dict]:
    """(the log, names of rules, settings of comparisons). Raises InputError."""
    w, judging = asked.workload, asked.judging
    if w is None:
        raise InputError(f"on which log? jobwise evaluate {asked.run} LOG")
    names = asked.rules or rules(asked.policy)
    if len(w if judging.whole else unseen(w)) < 8:
        raise InputError(f"{w.name}: {len(unseen(w))} unseen jobs are too few to compare anything on")
    if not asked.quiet:
        noticed(w)
    settings = {"window_jobs": judging.window, "replicas": 4 if judging.replicas is None else judging.replicas}
    return w, names, settings | {"seed": asked.seed, "kill_at_walltime": judging.end_at_limit}


def _on_log(asked: Question):
    """Compare it with rules on the part of a log that it has not seen."""
    w, names, settings = _jobs(asked)
    ours, since = len(names), 0.0 if asked.judging.whole else SEEN
    with progress(f"comparing {ours + 1} schedulers") as step:
        c, other = both_ways(w, [*names, asked.policy], since=since, progress=step, **settings)
    best, fair = against(c, [ours])[0]
    curve = Path(asked.folder) / "metrics.jsonl"
    return result(
        c,
        learnt=[ours],
        system=asked.policy.about.get("system", ""),
        other=other,
        ended=asked.judging.end_at_limit,
        everything=asked.judging.all,
        curve=curve if curve.is_file() else None,
        data={"against_best_rule": to_dict(c, best), "against_fair_best": fair and to_dict(c, fair)},
    )


def _at_origins(asked: Question):
    """Repeat the search of a run folder (system `search`) on the jobs before each of the last origins, or go on with those of
    before, and compare what it finds, not the trained policy itself, with rules on the jobs behind each origin."""
    if asked.judging.whole:
        raise InputError("--origins trains again at each origin; --whole is for one comparison")
    folder, count = asked.folder, asked.judging.origins or 1
    try:
        config = dict(json.loads((Path(folder) / "run.json").read_text())["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: --origins trains again and needs the run folder with its run.json ({error})") from None
    if config.get("system") != "search":
        raise InputError(f"{folder}: --origins trains search anew, not {config.get('system')}; a network takes too long")
    search = SearchConfig().changed(**config | {"share": 1.0})

    def learn(earlier, t: float):  # t: the share of the log's jobs that lies before the origin
        policy = search.train(earlier, Path(folder) / f"origin{t:g}", resume=True)[0]
        return replace(policy, label="search")

    w, names, how = _jobs(asked)
    with progress(f"{count} origins, a search at each") as step:
        return of_origins(origins(w, names, count, learn=learn, progress=step, **how))


def _on_jobsets(asked: Question):
    """Play jobsets that it has not seen, and compare it with rules on them."""
    if not (asked.judging.usual and asked.part.whole):
        raise InputError(f"{asked.run}: plays on a grid of time; only --policy, --seed, --report and --json are for it")
    config = config_of(asked.policy)
    config.checked_log(asked.log, asked.policy.label)
    sets = config.sets(TEST, 100, asked.workload)
    with progress(f"playing {len(sets)} jobsets") as step:
        return of_jobsets(on_jobsets(config, sets, asked.policy, asked.rules or config.rules(), asked.seed, step))
