"""The options of commands that serve a page beside their cycles, and the page while they run."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from jobwise.cli.tables import complain
from jobwise.errors import InputError, library

if TYPE_CHECKING:
    from jobwise.live.cycle import Sink
    from jobwise.live.shadow import Shadow
    from jobwise.live.sinks.page.board import Board
    from jobwise.live.steer import SteerSettings


@dataclass(frozen=True)
class Served:
    """Page: where it is served, and to which viewers."""

    web: Annotated[
        Optional[str],
        typer.Option("--web", metavar="HOST:PORT", help="Serve a page, a JSON API and metrics there, or at unix:FILE."),
    ] = None
    web_host: Annotated[
        Optional[list[str]], typer.Option("--web-host", metavar="NAME", help="A further name that the page is asked for by.")
    ] = None
    metrics: Annotated[
        Optional[str],
        typer.Option(
            "--metrics", metavar="HOST:PORT", help="Serve the metrics alone there, for Prometheus beside a page at unix:FILE."
        ),
    ] = None
    private: Annotated[
        bool, typer.Option("--private", help="The page shows only the viewer's own jobs: yours, or --user-header's.")
    ] = False
    user_header: Annotated[
        str,
        typer.Option("--user-header", metavar="HEADER", help="The header in which a proxy names the viewer, for --private."),
    ] = ""


@contextmanager
def page(
    served: Served,
    *,
    token: str | None = None,
    stop: Callable[[], None] | None = None,
    audit: Path | None = None,
) -> Iterator[Board | None]:
    """Serve a page while within, which its board fills; None where none is asked for. `token`: the file of the token with which
    `stop` may be asked for. Raises InputError."""
    web, names, private, header = served.web, served.web_host, served.private, served.user_header
    if not web and (names or header or token or (private and not served.metrics)):
        raise InputError("--web-host, --private, --user-header and --token-file belong to --web")
    if not web and not served.metrics:
        yield None
        return
    for name in ("starlette", "uvicorn", "prometheus_client"):
        library(name, "web")
    from jobwise.live.sinks.page.board import Board
    from jobwise.live.sinks.page.guards import Guards, token_of
    from jobwise.live.sinks.page.server import address, serving

    if header and not private:
        raise InputError("--user-header names the viewer of a page with --private")
    guards = Guards(token_of(token) if token else "", private, header, getpass.getuser())
    board = Board(stop=stop, audit=audit)
    with ExitStack() as stack:
        if served.metrics:
            address(served.metrics)
            try:
                where = stack.enter_context(serving(board, guards, served.metrics, names or (), metrics_alone=True))
                complain(f"metrics on {where}/metrics", "note")
            except InputError as error:  # any account may have taken the port: the page is not lost for that
                if not web:
                    raise
                complain(f"no metrics: {error}", "note")
        if web:
            where = stack.enter_context(serving(board, guards, web, names or ()))
            complain(f"a page on {where}", "note")
            _warn(web, private, header)
        yield board


def _warn(web: str, private: bool, header: str) -> None:
    """Say who can reach a page, where it is more than its owner and group."""
    from jobwise.live.sinks.page.server import UNIX, open_to_others

    if web.startswith(UNIX):
        return
    believed = f"whoever reaches it may say in {header} who asks"
    shows = believed if header else f"it shows {'your jobs' if private else 'the jobs of all users'}"
    who = "other machines" if open_to_others(web) else "every account of this machine"
    complain(f"{who} can reach it; {shows} (at unix:FILE only you and your group can)", "note")


def shown(board: Board | None, shadow: Shadow, settings: SteerSettings | None = None) -> list[Sink]:
    """The sink that shows each look, with a shadow's predictions, on a page; none without a page."""
    if board is None:
        return []
    from jobwise.live.sinks.page.board import Shown

    return [Shown(board, shadow, settings)]
