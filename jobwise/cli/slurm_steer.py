"""`jobwise slurm steer`: a policy has a say in the order of a running Slurm, by site factors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.options import complain
from jobwise.cli.tables import say
from jobwise.cli.when import seconds
from jobwise.errors import InputError


def steer(
    state: Annotated[str, typer.Option("--state", help="A folder of its own for this cluster: log, lock, factors of before.")],
    policy: Annotated[str, typer.Option("--policy", "-p", help="Who ranks the queue.")] = "jobwise",
    span: Annotated[int, typer.Option("--span", min=0, max=1_000_000_000, help="Points at most; 0: it alone decides.")] = 1000,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two cycles: 30s, 1m.")] = "30s",
    cycles: Annotated[Optional[int], typer.Option("--cycles", min=1, help="End after so many; by default never.")] = None,
    starve: Annotated[str, typer.Option("--starve", metavar="TIME", help="Who has waited longer is first.")] = "2d",
    most: Annotated[int, typer.Option("--most", min=1, help="Jobs changed in a cycle at most.")] = 10_000,
    dry: Annotated[bool, typer.Option("--dry-run", help="Write nothing to Slurm; the log says what would be written.")] = False,
    back: Annotated[bool, typer.Option("--undo", help="Only give all jobs the factors that they had before.")] = False,
) -> None:
    """Steer this cluster by site factors; ends with Ctrl-C or a file `stop` in the state folder, and gives all factors back."""
    from jobwise.policies.names import resolve
    from jobwise.slurm.client import Slurm
    from jobwise.slurm.steer import Ledger, Settings, Steer, undo

    pause, settings = seconds(every, "--every"), Settings(span, seconds(starve, "--starve"), most, dry)
    slurm = Slurm()
    if back:
        ledger = Ledger(Path(state))
        try:
            say(f"{undo(slurm, ledger, 'asked for'):,} jobs have the site factor that they had before")
        finally:
            ledger.close()
        return
    with Steer(slurm, resolve(policy), Path(state), settings) as s:
        n = 0
        while (cycles is None or n < cycles) and not s.ledger.stopped:
            n += 1
            try:
                x = s.cycle()
            except InputError as error:  # no answer, or none that can be read; no job has come yet
                s.ledger.note("slurm", problem=str(error))
                complain(f"{error}; trying again", "note")
            else:
                changed = f"{'would change' if dry else 'changed'} {x['changed']:,}"
                say(f"cycle {n:,}: {x['waiting']:,} wait, {changed}" + (f"; {x['problem']}" if x["problem"] else ""))
                if x["off"]:
                    break
            end = time.monotonic() + pause
            while (cycles is None or n < cycles) and time.monotonic() < end and not s.ledger.stopped:
                time.sleep(min(0.2, pause))
