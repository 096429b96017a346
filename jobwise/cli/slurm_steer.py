"""`jobwise slurm steer`: a policy has a say in the order of a running Slurm, by site factors."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import policy_option, stoppable
from jobwise.cli.slurm_retrain import Retrain, learning
from jobwise.cli.slurm_shadow import lines
from jobwise.cli.tables import say
from jobwise.cli.web import Served, page, shown
from jobwise.cli.when import seconds
from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.live.cycle import Cycle
from jobwise.live.shadow import Shadow
from jobwise.live.sinks.journal import Journal
from jobwise.live.sinks.placing import free_all
from jobwise.live.sinks.trying import give_back
from jobwise.live.sources import ClusterReader
from jobwise.live.state_folder import StateFolder, undo
from jobwise.live.steer import Steer, SteerSettings
from jobwise.live.view import takes
from jobwise.slurm.client import Slurm


@dataclass(frozen=True)
class How:
    """Limits: how far a policy has a say."""

    span: Annotated[int, typer.Option("--span", min=0, max=1_000_000_000, help="Points at most; 0: it alone decides.")] = 1000
    starve: Annotated[str, typer.Option("--starve", metavar="TIME", help="Who has waited longer is first.")] = "2d"
    most: Annotated[int, typer.Option("--most", min=1, help="Jobs changed in a cycle at most.")] = 10_000
    dry: Annotated[bool, typer.Option("--dry-run", help="Write nothing to Slurm; the log says what would be written.")] = False

    place: Annotated[
        bool, typer.Option("--place", help="Jobs that it would start now get its nodes (-p …+pack, +spread, +learned).")
    ] = False

    trial: Annotated[
        str,
        typer.Option("--trial", metavar="WHO", help="These jobs run in gaps, and are put back: comment=WORD, qos=, account=."),
    ] = ""

    def settings(self, pause: float):
        """Return them as `SteerSettings`, with `pause` s between two cycles. Raises InputError."""
        starve = seconds(self.starve, "--starve")
        return SteerSettings(self.span, starve, self.most, self.dry, self.place, self.trial, pause)


@grouped
def steer(
    state: Annotated[str, typer.Option("--state", help="A folder of its own for this cluster: log, lock, factors of before.")],
    policy: Annotated[str, policy_option(help="Who ranks the queue.")] = "jobwise",
    how: How = How(),
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two cycles: 30s, 1m.")] = "30s",
    cycles: Annotated[Optional[int], typer.Option("--cycles", min=1, help="End after N; by default never.")] = None,
    retrain: Retrain = None,
    served: Served = Served(),
    token_file: Annotated[
        Optional[str],
        typer.Option("--token-file", metavar="FILE", help="Who knows the token in it may stop steering by the page."),
    ] = None,
    back: Annotated[bool, typer.Option("--undo", help="Only give all jobs the factors that they had before.")] = False,
) -> None:
    """Steer this cluster by site factors; ends with Ctrl-C or a file `stop` in the state folder, and gives all factors back.

    Examples:
        jobwise slurm steer --state steer --dry-run
    """
    pause = seconds(every, "--every")
    settings = how.settings(pause)
    if back:
        slurm = Slurm()
        kept = StateFolder(Path(state))
        try:
            say(f"{undo(slurm, kept, 'asked for'):,} jobs have the site factor that they had before")
            if freed := free_all(slurm, kept, "asked for"):
                say(f"{freed:,} jobs that were given nodes may run anywhere")
            if tried := len(kept.tried):
                kept.keep_tried(give_back(slurm, kept.tried, "asked for", kept.note))
                say(f"{tried - len(kept.tried):,} jobs that were tried have their own time limits")
        finally:
            kept.close()
        return
    if (asked := Path(state) / "stop").exists():
        raise InputError(f"{asked}: asks to stop steering; remove it to steer again")
    with (
        stoppable("all jobs have the site factors that they had before"),
        learning(state, policy, retrain) as learns,
        closing(ClusterReader(slurm := Slurm())) as reader,
        Steer(slurm, _placing(learns.policy, settings.place).name, Path(state), settings) as s,
        page(served, token=token_file, stop=s.state.stop, audit=s.state.audit) as board,
        _foretold(board, s) as on_page,
    ):
        if settings.dry:
            say(f"nothing is written to Slurm; {s.state.audit} says of each job what would be, and why; Ctrl-C ends it")
        sinks = [s, *on_page, lines(lambda turn: _news(turn, settings.dry, s.order)), learns]
        goes_on = Cycle(reader, learns.policy, sinks).run(pause, cycles)
    if not goes_on:  # a guard rail has ended it
        raise typer.Exit(1)


def _news(turn, dry: bool, order: list[int]) -> None:
    """Say in a line what a look has changed, and the three jobs that the policy has first."""
    changed = f"{'would change' if dry else 'changed'} {turn.changed:,}"
    changed += f"; first: {', '.join(map(str, order[:3]))}" if order else ""
    say(f"cycle {turn.n:,}: {len(turn.now.waiting):,} wait, {changed}" + (f"; {turn.problem}" if turn.problem else ""))


@contextmanager
def _foretold(board, s):
    """The sinks that show each look on a page: starts as they are expected, and how well they were predicted, by a journal
    beside the audit log."""
    if board is None:
        yield []
        return
    with closing(Journal(s.state.folder)) as journal:
        shadow = Shadow(journal)
        yield [shadow, *shown(board, shadow, s.settings)]


def _placing(policy, place: bool):
    """The policy, which must say where jobs run, where they are to be placed. Raises InputError."""
    if place and takes(policy, pool(2)):
        raise InputError(f"--place: {policy.name} sees one pool, not nodes; -p {policy.name}+pack, +spread or +learned does")
    return policy
