"""`jobwise watch`: a scheduler fills the machine, as an animation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.options import Force, check_outputs, open_log
from jobwise.cli.progress import progress
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.simulate import simulate
from jobwise.systems import config_of, configure, systems
from jobwise.workloads.jobsets import TEST
from jobwise.worlds.spec import worlds


def watch(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run folder of deeprm, cush, rl-taps or telemetry, or a rule: sjf, cush:sjf+pack, gpus:slot, nodes:lb. With "
            "--log any scheduler of a log.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Animated GIF to write.")],
    jobset: Annotated[int, typer.Option("--jobset", min=0, help="Which of the unseen jobsets.")] = 0,
    rows: Annotated[
        int, typer.Option("--rows", min=1, max=5000, help="Frames: rows of time, at most; of a log: of a day.")
    ] = 120,
    log: Annotated[
        Optional[str], typer.Option("--log", help="The log of the scheduler, or that the policy was trained on.")
    ] = None,
    day: Annotated[
        Optional[float], typer.Option("--day", min=0, help="Of the log. Default: that with the longest queue.")
    ] = None,
    force: Force = False,
) -> None:
    """Draw an animation of a cluster over time. It shows a policy on generated jobs (time slots, GPUs, nodes), or a scheduler
    on a day of a log.

    Examples:
        jobwise watch gpus:slot --out gpus.gif
        jobwise watch saf+easy --log log.swf.gz --day 3 --out day.gif
    """
    from jobwise.report.film import film

    check_outputs("-", out, force=force, ending=".gif")
    config, policy = _played(run, log is not None)
    if config is None:
        _of_log(run, policy, log, day, rows, out)
        return
    config.checked_log(log, policy.name)
    sets = config.sets(TEST, jobset + 1, None if log is None else open_log(log, None, on_nodes=True))
    if jobset >= len(sets):
        raise InputError(f"there are {len(sets)} jobsets; --jobset counts from 0")
    count = film(sets[jobset], policy, out, rows, config.model_dump().get("restart_cost_s", 0.0))
    where = f"{config.system}'s world, {'generated jobs' if log is None else log}"
    print(f"{out}: {where}, {count} rows of time; jobs have a colour each, and stand where they hold units of the cluster")


def _played(run: str, on_log: bool):
    """Return (the configuration whose jobsets are played, None for a scheduler of logs; the policy). Raises InputError."""
    first, _, rule = run.partition(":")
    specs = worlds()
    if rule and first in specs and specs[first].films:
        return configure(specs[first].films, None, "small"), resolve(run)
    if rule and first in systems():
        config = configure(first, None, "small")
        if not hasattr(config, "rule"):
            raise InputError(f"{run}: {first} learns from logs; animations show generated jobs alone")
        return config, config.rule(rule)
    for spec in specs.values():
        if not on_log and spec.bare and run.partition("+")[0] in spec.policies.DOCS and not Path(run).exists():
            config = configure(spec.films, None, "small")
            try:
                return config, config.rule(run)
            except InputError as error:
                raise InputError(f"{error}; a scheduler of a log is filmed with --log LOG") from None
    policy = resolve(run)
    return config_of(policy) if policy.jobsets else None, policy


def _of_log(run: str, policy, log: str | None, day: float | None, frames: int, out: str) -> None:
    """Animate a scheduler on a day of a log of a pool. Raises InputError."""
    from jobwise.report.film import film_of_log
    from jobwise.report.gantt import busiest

    if log is None:
        raise InputError(f"{run}: schedules logs; name one with --log")
    w = open_log(log, None)
    if not w.cluster.is_pool:
        raise InputError(f"{log}: animations of logs show pools of processors; this machine is none")
    if day is not None and day * 86_400 > float(w.jobs["submit"][-1]):
        raise InputError(f"day {day:g} is not in the log; it has days 0 to {w.jobs['submit'][-1] / 86_400:.0f}")
    with progress("simulating") as show:
        r = simulate(w, policy, progress=show)
    day = busiest(r) if day is None else day
    count = film_of_log(r, out, frames, day)
    print(
        f"{out}: day {day:g} in {count} frames; jobs have a colour each, left of the line as they ran, right of it as requested"
    )
