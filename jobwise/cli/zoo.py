"""`jobwise zoo`: policies that come trained, and their cards."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from jobwise.cli.options import Json
from jobwise.cli.tables import print_json, print_table, say
from jobwise.policies.zoo import PREFIX, cards, file_of


def zoo(
    name: Annotated[Optional[str], typer.Argument(help="One of them. Default: all.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """List policies that come trained, or show the card of one. A card has its log, its training, its results, its limits.

    Examples:
        jobwise zoo
    """
    shown = cards()
    if name is not None:
        name = name.removeprefix(PREFIX)
        file_of(name)  # raises InputError where there is none of this name
        shown = {name: shown[name]}
    if as_json:
        print_json({n: card._asdict() for n, card in shown.items()})
    elif name is None:
        rows = [[PREFIX + n, card.world, card.log, card.result] for n, card in shown.items()]
        print_table("", ["policy", "world", "trained on", "on jobs that it had not seen"], rows, left=4)
        say("jobwise zoo NAME shows a card; jobwise compare LOG -p fcfs+easy -p zoo:NAME judges it on a log of yours.")
    else:
        rows = [[key, value] for key, value in shown[name]._asdict().items()]
        print_table(PREFIX + name, ["", ""], rows, left=2)
