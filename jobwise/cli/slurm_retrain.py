"""`jobwise slurm retrain`: a trained policy goes on learning from the jobs that have ended; learning on beside a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from jobwise.cli.options import Json, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.slurm_when import Folder, outputs
from jobwise.cli.tables import print_json, print_table, say
from jobwise.cli.when import seconds, span
from jobwise.errors import InputError
from jobwise.live.learning import NEVER, Learning
from jobwise.live.retrain import check, roll_back
from jobwise.live.retrain import retrain as learn
from jobwise.live.sources import look
from jobwise.live.view import ended_on_pool
from jobwise.policies.names import resolve

if TYPE_CHECKING:
    from jobwise.live.learning import Learning

Retrain = Annotated[
    Optional[str],
    typer.Option(
        "--retrain",
        metavar="TIME",
        help="Train -p, a trained policy, anew every TIME (1d); the new one ranks once it has won.",
    ),
]


@contextmanager
def learning(state: str, policy: str, every: str | None) -> Iterator[Learning]:
    """The policy that ranks the queue, and learns on `every` so long; without, always `policy`. Raises InputError."""
    if every is not None:
        check(policy)
    learns = Learning(Path(state), resolve(policy), policy, NEVER if every is None else seconds(every, "--retrain"))
    try:
        yield learns
    finally:
        learns.close()


def retrain(
    state: Annotated[str, typer.Option("--state", help="The state folder of `shadow` or `steer`; learnt/ in it is filled.")],
    policy: Annotated[Optional[str], policy_option(help="A trained policy: its system is trained anew.")] = None,
    weeks: Annotated[float, typer.Option("--weeks", min=0.1, max=52, help="The last weeks, on which it has to win.")] = 3.0,
    back: Annotated[bool, typer.Option("--rollback", help="Only let the generation before rank again.")] = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Train a policy anew on the jobs that have ended, replay the last weeks, and say which policy ranks from now on.

    Examples:
        jobwise slurm retrain --state steer
    """
    place = Path(state) / "learnt"
    if back:
        number = roll_back(place)
        say(f"{'the policy that learning began with' if number < 0 else f'generation {number}'} ranks from now on")
        return
    if policy is None:
        raise InputError(f"which policy learns on? jobwise slurm retrain --state {state} -p runs/NAME")
    check(policy)
    with outputs(folder, None) as read:
        w = ended_on_pool(look(read))
    with progress("training and replays") as step:
        x = learn(place, w, policy, weeks=weeks, progress=step)
    if as_json:
        print_json(x.model_dump())
        return
    say(f"trained on {x.learnt:,} jobs, judged on {x.judged:,} that came later ({x.windows} windows)")
    rows = [[name, f"{x.scores[name]:.2f}", span(x.longest[name])] for name in sorted(x.scores, key=lambda n: x.scores[n])]
    print_table("the last weeks, replayed", ["policy", "slowdown", "longest wait"], rows)
    confirmed = f"is generation {x.confirmed}" if x.confirmed >= 0 else "is dropped"
    say(f"the new one {confirmed} ({0.0 - x.gain:+.1%} against the better of the last generation and {x.rule})")
    say(f"{x.rule if x.serves < 0 else f'generation {x.serves}'} ranks from now on")
