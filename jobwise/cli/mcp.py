"""`jobwise mcp`: the answers of the command line for a chat, by the Model Context Protocol. It only reads."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import count
from threading import Lock
from typing import Annotated, Any, Optional

import typer

from jobwise import __version__
from jobwise.cli.options import needs
from jobwise.cli.slurm_when import Folder
from jobwise.errors import InputError, in_a_line

ONE_AT_A_TIME = Lock()  # answers are printed, and caught
BEAT_S = 3.0
MOST = 60  # jobs of an answer: a chat reads all of it
ABOUT = (
    "Answers about the jobs of one Slurm cluster, by simulation: when waiting jobs start and why they wait, when a new job "
    "would start and what would start it sooner, what another configuration would have done. Times are seconds from now. "
    "start_80 is the interval that holds the start in 80 % of the cases: say it, not the start alone. Nothing is changed on "
    "the cluster."
)


def answer(words: list[str]) -> dict[str, Any]:
    """Return what a command prints with --json. Raises InputError with the line that it would print."""
    from jobwise.cli.main import app

    out = io.StringIO()
    with ONE_AT_A_TIME, redirect_stdout(out):
        app([*words, "--json"], prog_name="jobwise", standalone_mode=False)
    return json.loads(out.getvalue())


class Tools:
    """The tools of a server: on `folder` (None: the Slurm of this machine), a site's folder for questions about its past, and
    for one `user` alone (None: all)."""

    def __init__(self, folder: str | None, site: str | None, user: str | None):
        self.folder, self.site, self.user = folder, site, user

    def _place(self) -> list[str]:
        return ["--folder", self.folder] if self.folder else []

    def when(self, job: int | None = None, user: str | None = None) -> dict[str, Any]:
        """When do waiting jobs start, and why do they wait? All of the queue, one job, or those of a user."""
        user = self._alone(user)
        words = ["slurm", "when", *([str(job)] if job is not None else []), *self._place()]
        out = answer([*words, *(["--user", user] if user else [])])
        jobs = out["jobs"]
        return out | {"jobs": jobs[:MOST], "more_jobs": max(len(jobs) - MOST, 0)}

    def explain(self, job: int) -> dict[str, Any]:
        """Why does a waiting job wait, which jobs have to end first, and what would start it sooner?"""
        words = ["slurm", "when", str(job), *self._place(), "--sooner"]
        return answer([*words, *(["--user", self.user] if self.user else [])])

    def fits(
        self,
        cpus: int | None = None,
        time: str | None = None,
        nodes: int | None = None,
        gpus_per_node: int | None = None,
        partition: str | None = None,
        script: str | None = None,
    ) -> dict[str, Any]:
        """When would a job that is not submitted yet start, and what would start it sooner? `time` is its limit, such as 90m,
        12h, 2d; `script` the path of a batch script in place of cpus and time; partition `all` compares the partitions."""
        options = {"procs": cpus, "time": time, "nodes": nodes, "gpus-per-node": gpus_per_node, "partition": partition}
        options |= {"batch": script, "user": self.user}
        words = [w for name, value in options.items() if value is not None for w in (f"--{name}", str(value))]
        return answer(["slurm", "fits", *words, *self._place()])

    def advise(self) -> dict[str, Any]:
        """Whose place in the queue would another order change, whose time limits are too long, which settings would help?"""
        if self.user:
            raise InputError("advice names all users; this server shows the jobs of one")
        return answer(["slurm", "advise", *self._place()])

    def what_if(
        self, set_lines: list[str] | None = None, nodes: int = 0, cap: str = "", power_table: str = ""
    ) -> dict[str, Any]:
        """What would another configuration have done with the recorded jobs? Lines of slurm.conf such as bf_window=2880, nodes
        that are added, or a cap on power such as 40kW (with a table of what nodes draw)."""
        if self.site is None:
            raise InputError("no folder of a site is known: start the server with --site FOLDER (`jobwise slurm site`)")
        words = ["slurm", "what-if", self.site, *(w for line in set_lines or [] for w in ("--set", line))]
        words += ["--nodes", str(nodes)] if nodes else []
        words += ["--cap", cap, "--power", power_table] if cap else []
        out = answer(words)
        if self.user:
            for x in out["changes"]:
                x["groups"] = [g for g in x["groups"] if g["what"] != "user"]
        return out

    def _alone(self, user: str | None) -> str | None:
        """The user whose jobs are shown. Raises InputError for another one than the server shows."""
        if self.user and user not in (None, self.user):
            raise InputError(f"this server shows the jobs of {self.user} alone")
        return self.user or user


def server(tools: Tools) -> Any:
    """Return the server with its tools, not yet running. Errors of the user become one line. Raises InputError without the
    library."""
    needs("mcp", "mcp")
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    made = MCPServer("jobwise", instructions=ABOUT, version=__version__, log_level="WARNING")
    for tool in (tools.when, tools.explain, tools.fits, tools.advise, tools.what_if):
        made.add_tool(_in_words(tool), name=tool.__name__, annotations=ToolAnnotations(read_only_hint=True))
    return made


def _in_words(tool: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Return the same, whose InputError is an error of the tool, in one line. It says every BEAT_S seconds that it works: some
    clients wait 10 s for an answer, and longer while they hear of progress."""
    from functools import partial, wraps
    from inspect import Parameter, signature

    import anyio
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    async def safe(*, client: Context, **more: Any) -> dict[str, Any]:
        async with anyio.create_task_group() as both:
            both.start_soon(_beat, client)
            try:
                return await anyio.to_thread.run_sync(partial(tool, **more))
            except InputError as error:
                line = in_a_line(error)
            finally:
                both.cancel_scope.cancel()
        raise ToolError(line)

    own = signature(tool, eval_str=True)
    client = Parameter("client", Parameter.KEYWORD_ONLY, annotation=Context)
    safe.__signature__ = own.replace(parameters=[*own.parameters.values(), client])  # type: ignore[attr-defined]
    safe.__annotations__ = {**tool.__annotations__, "client": Context}
    return safe


async def _beat(client: Any) -> None:
    """Say again and again how long it has taken, until it is cancelled."""
    import anyio

    for n in count(1):
        await anyio.sleep(BEAT_S)
        await client.report_progress(n * BEAT_S, message=f"simulating, {n * BEAT_S:.0f} s")


def mcp(
    folder: Folder = None,
    site: Annotated[
        Optional[str], typer.Option("--site", help="A folder as `jobwise slurm site` reads it: for what-if.")
    ] = None,
    user: Annotated[Optional[str], typer.Option("--user", help="Show the jobs of this user alone.")] = None,
) -> None:
    """Answer a chat's questions about this cluster: when will my job start? (Model Context Protocol, on stdin and stdout.)

    Examples:
        jobwise mcp
        jobwise mcp --folder live --site site
    """
    made = server(Tools(folder, site, user))
    print("jobwise mcp: waits for a client on standard input; Ctrl-C ends it", file=sys.stderr)
    made.run()
