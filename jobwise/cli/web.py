"""The options of commands that serve a page beside their cycles, and the page as they fill it."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.options import complain
from jobwise.errors import InputError, library

Web = Annotated[Optional[str], typer.Option("--web", metavar="HOST:PORT", help="Serve a page, a JSON API and metrics there.")]
WebHost = Annotated[
    Optional[list[str]], typer.Option("--web-host", metavar="NAME", help="A further name that the page is asked for by.")
]
Private = Annotated[
    bool, typer.Option("--private", help="The page shows only the viewer's own jobs: yours, or --user-header's.")
]
UserHeader = Annotated[
    str, typer.Option("--user-header", metavar="HEADER", help="The header in which a proxy names the viewer, for --private.")
]


@dataclass
class Page:
    """A page that cycles fill."""

    board: Any

    def show(self, shadow, predicted, cycle: int, seconds: float, steering=None) -> None:
        """Show a cycle of a shadow."""
        from jobwise.slurm.page.state import state_of

        self.board.publish(state_of(shadow, predicted, cycle, seconds, steering), predicted)

    def silent(self, problem: str) -> None:
        """Show that Slurm did not answer."""
        self.board.silent(problem)


@contextmanager
def page(
    web: str | None,
    names: list[str] | None,
    private: bool,
    header: str,
    *,
    token: str | None = None,
    stop: Callable[[], None] | None = None,
    audit: Path | None = None,
) -> Iterator[Page | None]:
    """Serve a page while within; None where none is asked for. `token`: the file of the token with which `stop` may be asked
    for. Raises InputError."""
    if not web:
        if names or private or header or token:
            raise InputError("--web-host, --private, --user-header and --token-file belong to --web")
        yield None
        return
    for name in ("starlette", "uvicorn", "prometheus_client"):
        library(name, "web")
    from jobwise.slurm.page.board import Board
    from jobwise.slurm.page.guards import Guards, token_of
    from jobwise.slurm.page.server import address, loopback, serving

    if header and not private:
        raise InputError("--user-header names the viewer of a page with --private")
    host, port = address(web)
    guards = Guards(token_of(token) if token else "", private, header, getpass.getuser())
    board = Board(stop=stop, audit=audit)
    with serving(board, guards, host, port, names or ()) as port:
        complain(f"a page on http://{f'[{host}]' if ':' in host else host}:{port}", "note")
        if not loopback(host) and not private:
            complain("whoever reaches this address sees the jobs of all users", "note")
        yield Page(board)
