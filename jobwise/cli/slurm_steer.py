"""`jobwise slurm steer`: a policy has a say in the order of a running Slurm, by site factors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import complain, policy_option, stoppable
from jobwise.cli.slurm_retrain import Retrain, learning
from jobwise.cli.tables import say
from jobwise.cli.web import Served, page
from jobwise.cli.when import seconds
from jobwise.errors import InputError


@dataclass(frozen=True)
class How:
    """How far a policy has a say."""

    span: Annotated[int, typer.Option("--span", min=0, max=1_000_000_000, help="Points at most; 0: it alone decides.")] = 1000
    starve: Annotated[str, typer.Option("--starve", metavar="TIME", help="Who has waited longer is first.")] = "2d"
    most: Annotated[int, typer.Option("--most", min=1, help="Jobs changed in a cycle at most.")] = 10_000
    dry: Annotated[bool, typer.Option("--dry-run", help="Write nothing to Slurm; the log says what would be written.")] = False

    place: Annotated[
        bool, typer.Option("--place", help="Jobs that it would start now get its nodes (-p …+pack, +spread, +learned).")
    ] = False

    def settings(self):
        """Return them as `slurm.steer.Settings`. Raises InputError."""
        from jobwise.live.steer import SteerSettings

        return SteerSettings(self.span, seconds(self.starve, "--starve"), self.most, self.dry, self.place)


@grouped
def steer(
    state: Annotated[str, typer.Option("--state", help="A folder of its own for this cluster: log, lock, factors of before.")],
    policy: Annotated[str, policy_option(help="Who ranks the queue.")] = "jobwise",
    how: How = How(),
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two cycles: 30s, 1m.")] = "30s",
    cycles: Annotated[Optional[int], typer.Option("--cycles", min=1, help="End after so many; by default never.")] = None,
    retrain: Retrain = None,
    served: Served = Served(),
    token_file: Annotated[
        Optional[str],
        typer.Option("--token-file", metavar="FILE", help="Who knows the token in it may stop steering by the page."),
    ] = None,
    back: Annotated[bool, typer.Option("--undo", help="Only give all jobs the factors that they had before.")] = False,
) -> None:
    """Steer this cluster by site factors; ends with Ctrl-C or a file `stop` in the state folder, and gives all factors back."""
    from jobwise.live.sinks.placing import free_all
    from jobwise.live.state_folder import StateFolder, undo
    from jobwise.live.steer import Steer
    from jobwise.slurm.client import Slurm

    pause, settings = seconds(every, "--every"), how.settings()
    slurm = Slurm()
    if back:
        kept = StateFolder(Path(state))
        try:
            say(f"{undo(slurm, kept, 'asked for'):,} jobs have the site factor that they had before")
            if freed := free_all(slurm, kept, "asked for"):
                say(f"{freed:,} jobs that were given nodes may run anywhere")
        finally:
            kept.close()
        return
    if (asked := Path(state) / "stop").exists():
        raise InputError(f"{asked}: asks to stop steering; remove it to steer again")
    off, n = False, 0
    with (
        stoppable("all jobs have the site factors that they had before"),
        learning(state, policy, retrain) as learns,
        Steer(slurm, _placing(learns.policy, settings.place), Path(state), settings) as s,
        page(served, token=token_file, stop=s.state.stop, audit=s.state.audit) as shown,
        _follower(s, shown) as follow,
    ):
        while (cycles is None or n < cycles) and not s.state.stopped and not off:
            n += 1
            if news := learns.look(s.cluster):
                s.policy = learns.policy
                s.state.note("learning", news=news)
                say(news)
            try:
                x = s.cycle()
            except InputError as error:  # no answer, or none that can be read; no job has come yet
                s.state.note("slurm", problem=str(error))
                complain(f"{error}; trying again", "note")
                if shown:
                    shown.failed(str(error))
            else:
                changed = f"{'would change' if settings.dry else 'changed'} {x['changed']:,}"
                say(f"cycle {n:,}: {x['waiting']:,} wait, {changed}" + (f"; {x['problem']}" if x["problem"] else ""))
                off = x["off"]
                follow(n, x)
            end = time.monotonic() + pause
            while (cycles is None or n < cycles) and time.monotonic() < end and not s.state.stopped and not off:
                time.sleep(min(0.2, pause))
    if off:  # a guard rail has ended it
        raise typer.Exit(1)


def _placing(policy, place: bool):
    """The policy, which must say where jobs run, where they are to be placed. Raises InputError."""
    from jobwise.cluster import pool
    from jobwise.live.views import takes

    if place and takes(policy, pool(2)):
        raise InputError(f"--place: {policy.name} sees one pool, not nodes; -p {policy.name}+pack, +spread or +learned does")
    return policy


@contextmanager
def _follower(s, shown) -> Iterator[Callable[[int, dict], None]]:
    """A function that shows a cycle of steering on the page: starts as they are expected, and how well they were foretold, by
    a journal beside the audit log."""
    if shown is None:
        yield lambda n, x: None
        return
    from jobwise.live.shadow import Shadow
    from jobwise.live.sinks.journal import Journal
    from jobwise.live.sinks.page.state import Steering

    journal, own = Journal(s.state.folder), s.settings
    shadow = Shadow(s.policy, journal)

    def follow(n: int, x: dict) -> None:
        begun = time.monotonic()
        try:
            shadow.policy = s.policy
            p, _ = shadow.cycle(s.cluster, n, s.wishes)
            shadow.problem = shadow.problem or x["problem"]
            steering = Steering(span=own.span, dry=own.dry, changed=x["changed"])
            shown.show(shadow, p, n, time.monotonic() - begun, steering)
        except Exception as error:  # the clock, a full disk, a damaged journal; whatever it is, steering goes on
            complain(f"the page: {error}", "note")
            shown.failed(f"the page could not be filled: {error}", True)

    try:
        yield follow
    finally:
        journal.close()
