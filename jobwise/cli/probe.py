"""`jobwise probe`: does a trained network use the state that it is shown?"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from jobwise.cli.options import LOG_HELP, Jobs, Json, Policy, Procs, Seed, in_slots, open_log
from jobwise.cli.progress import progress
from jobwise.cli.tables import print_json, print_table, say
from jobwise.learn.probe import EXPLAINED
from jobwise.learn.probe import probe as probed
from jobwise.policies.names import resolve


def probe(
    policy: Policy,
    log: Annotated[Optional[str], typer.Argument(metavar="LOG", help=f"{LOG_HELP} None: generated jobs.")] = None,
    procs: Procs = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Does a trained network use the state that it is shown, or would a constant answer do as well?

    Examples:
        jobwise probe runs/network log.swf.gz
        jobwise probe zoo:slots
    """
    trained = resolve(policy)
    w = None if log is None else open_log(log, procs, jobs, on_nodes=in_slots([trained]))
    with progress("playing with states of other moments") as step:
        use = probed(trained, w, seed=seed, progress=step)
    if as_json:
        print_json(use.to_dict())
        return
    print_table("", ["", ""], use.rows(), left=2)
    say(use.sentence())
    say(EXPLAINED)
