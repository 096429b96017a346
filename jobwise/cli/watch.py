"""`jobwise watch`: a policy fills the machine, as a film."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.options import Force, check_outputs, open_log
from jobwise.errors import InputError


def watch(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run folder of deeprm, cush, rl-taps or telemetry, or a rule: sjf, cush:sjf+pack, gpus:slot, nodes:lb.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Animated GIF to write.")],
    jobset: Annotated[int, typer.Option("--jobset", min=0, help="Which of the unseen jobsets.")] = 0,
    rows: Annotated[int, typer.Option("--rows", min=1, max=5000, help="Rows of time to show at most.")] = 120,
    log: Annotated[Optional[str], typer.Option("--log", help="The log that the policy was trained on.")] = None,
    force: Force = False,
) -> None:
    """Film a policy of a world of rows (time slots, GPUs, nodes): the picture of the cluster over time.

    Policies of logs have no film; `jobwise compare --report` draws their days.
    """
    from jobwise.report.film import film
    from jobwise.workloads.jobsets import TEST

    check_outputs("-", out, force=force, ending=".gif")
    config, policy = _played(run)
    config.checked_log(log, policy.name)
    sets = config.sets(TEST, jobset + 1, None if log is None else open_log(log, None, on_nodes=True))
    if jobset >= len(sets):
        raise InputError(f"there are {len(sets)} jobsets; --jobset counts from 0")
    count = film(sets[jobset], policy, out, rows, getattr(config, "restart_cost_s", 0.0))
    print(f"{out}: {count} rows of time; jobs have a colour each, and stand where they hold units of the cluster")


def _played(run: str):
    """Return (the configuration whose jobsets are played, the policy). Raises InputError."""
    from jobwise.policies.names import load, resolve
    from jobwise.systems import config_of, configure, systems
    from jobwise.worlds.spec import worlds

    first, _, rule = run.partition(":")
    specs = worlds()
    if rule and first in specs and specs[first].films:
        return configure(specs[first].films, None, "small"), resolve(run)
    if rule and first in systems():
        config = configure(first, None, "small")
        if not hasattr(config, "rule"):
            raise InputError(f"{run}: {first} learns from logs; films are of worlds of rows")
        return config, config.rule(rule)
    for spec in specs.values():
        if spec.bare and run.partition("+")[0] in spec.policies.DOCS and not Path(run).exists():
            config = configure(spec.films, None, "small")
            return config, config.rule(run)
    policy = load(run)
    if not getattr(policy, "jobsets", False):
        raise InputError(f"{run}: plays on no grid of time; `jobwise compare LOG -p {run} --report out.html` shows it")
    return config_of(policy), policy
