"""The options of `jobwise mars run`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.tables import complain
from jobwise.errors import InputError
from jobwise.policies.avoid import Avoid
from jobwise.systems.layer import layer
from jobwise.systems.store import Store
from jobwise.telemetry.live import LiveRisks
from jobwise.telemetry.prometheus import Prometheus

SLEEP = "sleep {seconds}"
WAIT_S = 5.0  # for an answer of a Prometheus: tasks wait as long
AVOID, ABOVE = "1 - up", 0.5


@dataclass(frozen=True)
class Tasks:
    """Tasks: their command, and how they are followed."""

    command: Annotated[
        Optional[str],
        typer.Option(
            "--command",
            help="What a task runs, with {task}, {program}, {seconds}; no shell. By default CWL and WDL run their own "
            f"commands, others {SLEEP!r}.",
        ),
    ] = None
    inputs: Annotated[
        Optional[list[str]],
        typer.Option("--inputs", help="Values of the inputs of a CWL or WDL workflow."),
    ] = None
    scale: Annotated[float, typer.Option("--scale", min=0, help="{seconds}: recorded run time times this.")] = 1.0
    sbatch: Annotated[str, typer.Option("--sbatch", help="More options of sbatch: '-p batch -A chem'.")] = ""
    bare: Annotated[bool, typer.Option("--bare", help="Run tasks without the containers they ask for.")] = False
    retries: Annotated[int, typer.Option("--retries", min=0, max=100, help="Of a task that fails.")] = 1
    poll: Annotated[float, typer.Option("--poll", min=0.05, max=3600, help="s between two looks at the manager.")] = 1.0


@dataclass(frozen=True)
class Countable:
    """Machine: what it has beside cores."""

    gpus: Annotated[int, typer.Option("--gpus", min=0, max=2**20, help="GPUs of the simulator, or of this machine.")] = 0
    memory: Annotated[int, typer.Option("--memory", min=0, max=2**31 - 1, help="The same, MB of memory. 0: not counted.")] = 0
    io: Annotated[
        int,
        typer.Option(
            "--io", min=0, max=2**31 - 1,
            help="MB/s that tasks read and write. 0: not counted.",
        ),
    ] = 0  # fmt: skip


@dataclass(frozen=True)
class Avoided:
    """Nodes: those that a policy keeps tasks away from, by what a Prometheus says of them."""

    prometheus: Annotated[
        Optional[str],
        typer.Option("--prometheus", metavar="URL", help="Its server; a token comes from JOBWISE_PROMETHEUS_TOKEN."),
    ] = None
    avoid: Annotated[
        Optional[str],
        typer.Option(
            "--avoid", metavar="PROMQL",
            help=f"A value for each node ({AVOID!r}); -p must place tasks on nodes: fcfs+learned, sjf+pack.",
        ),
    ] = None  # fmt: skip
    above: Annotated[Optional[float], typer.Option("--above", help=f"No new tasks on nodes of a larger value ({ABOVE}).")] = (
        None
    )

    def risks(self, policy: str, manager: Any) -> Any:
        """Return the values of the nodes; None where no server is named. Raises InputError."""
        if self.prometheus is None:
            if self.avoid is not None or self.above is not None:
                raise InputError("--avoid and --above go with --prometheus URL")
            return None
        if policy == "manager":
            raise InputError("--prometheus goes with a policy: -p manager leaves all to the manager")
        names, server, query = [n.name for n in manager.nodes()], Prometheus.of(self.prometheus, WAIT_S), self.avoid or AVOID
        server.instant(query)  # a wrong address or query ends the run before it begins
        return LiveRisks(server, query, names, report=lambda text: complain(text, "note"))

    def around(self, policy: Any, risks: Any) -> Any:
        """Return the policy, kept away from nodes at risk."""
        return Avoid(policy, risks, ABOVE if self.above is None else self.above) if risks else policy


@dataclass(frozen=True)
class ByMars:
    """Learning: what `-p mars` knows and learns."""

    models: Annotated[Optional[str], typer.Option("--models", help="Model store of `-p mars`.")] = None
    learn: Annotated[
        int, typer.Option("--learn", min=0, help="Choices that a model of the store learns from after a run; 0: none.")
    ] = 100_000
    weights: Annotated[
        str,
        typer.Option(
            "--weights",
            help="Of -p mars: cpu, memory and io (1 each) say in what workflows are alike, cost (0) how much a network puts "
            "off dear tasks; 'memory=2,cost=1'.",
        ),
    ] = ""

    def layer(self, w: Any, flows: list) -> Any:
        """Return the layer for a stream of these workflows. Raises InputError."""
        weights, cost = weights_of(self.weights)
        return layer(w, flows, Store(self.models) if self.models else None, weights=weights, cost=cost)

    def check(self, policy: str) -> None:
        """Raises InputError where another policy than mars has no use for them."""
        for name, value in (("--models", self.models), ("--weights", self.weights)):
            if value and policy != "mars":
                raise InputError(f"{name} goes with -p mars")
        weights_of(self.weights)


def weights_of(text: str) -> tuple[tuple[float, float, float], float]:
    """(the weights of CPU, memory and I/O, that of cost). Raises InputError."""
    weights = {"cpu": 1.0, "memory": 1.0, "io": 1.0, "cost": 0.0}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if name.strip() not in weights or not 0 <= weight < 1e6:
            raise InputError(f"--weights: {word!r} is no weight; {', '.join(f'{k}=N' for k in weights)} are, N >= 0")
        weights[name.strip()] = weight
    return (weights["cpu"], weights["memory"], weights["io"]), weights["cost"]
