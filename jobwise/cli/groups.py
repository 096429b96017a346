"""Options of commands in groups: a parameter that is a dataclass stands for the options that its fields describe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, cast, get_type_hints

from jobwise.cli.options import (
    Cap,
    Columns,
    EndAtLimit,
    Executor,
    Fields,
    Flexible,
    Force,
    Jobs,
    Json,
    Load,
    OfCluster,
    PowerFile,
    PricesFile,
    Procs,
    Racks,
    Restartable,
    RestartCost,
    Seed,
    Threads,
)
from jobwise.errors import InputError
from jobwise.parallel import workers
from jobwise.power.flexible import flexible
from jobwise.power.setting import powered_by
from jobwise.workload import Workload
from jobwise.workloads.transform import restartable


@dataclass(frozen=True)
class LogPart:
    """Log: which part of it, on which machine, under which load."""

    procs: Procs = None
    jobs: Jobs = None
    load: Load = None

    @property
    def whole(self) -> bool:
        """True where the log is taken as it is."""
        return self.procs is None and self.jobs is None and self.load is None


@dataclass(frozen=True)
class LogFormat:
    """Format: what the file of a log does not tell."""

    columns: Columns = None
    fields: Fields = None
    cluster: OfCluster = None

    @property
    def words(self) -> dict[str, str]:
        """Return what is said of the file, by name."""
        return {k: v for k, v in vars(self).items() if v}


@dataclass(frozen=True)
class Replay:
    """Replay: how a log is replayed."""

    end_at_limit: EndAtLimit = False
    racks: Racks = None
    restart_cost: RestartCost = 0.0
    restartable: Restartable = None
    seed: Seed = 0

    def drawn(self, w: Workload) -> Workload:
        """Return a log with as many jobs that may be begun again as were asked for."""
        return w if self.restartable is None else restartable(w, self.restartable, self.seed)


@dataclass(frozen=True)
class Powered:
    """Power: what jobs and nodes draw, what energy costs, and a cap."""

    power: PowerFile = None
    prices: PricesFile = None
    cap: Cap = None
    flexible: Flexible = None

    def of(self, w: Workload, capped: bool = True, leave_out: bool = True, holds: bool = False) -> Workload:
        """Return a log with what its jobs draw, where anything is said of power; `capped`: under the cap, too, without the jobs
        that could never start then unless not `leave_out`; `holds`: a policy may hold jobs. Raises InputError."""
        if self.flexible and not holds:
            raise InputError("--flexible says whose jobs may be held, and nothing here holds jobs: -p fcfs+easy+shift8h does")
        if self.flexible:
            w = flexible(w, self.flexible)
        if not (self.power or self.prices or self.cap):
            return w
        return powered_by(w, self.power, self.prices, self.cap if capped else None, leave_out)


@dataclass(frozen=True)
class Output:
    """Output: the form of the answer, and leave to overwrite files."""

    force: Force = False
    as_json: Json = False


@dataclass(frozen=True)
class Parallel:
    """Workers: where tasks run, and how many at once."""

    executor: Executor = None
    threads: Threads = 2

    def workers(self) -> AbstractContextManager:
        """Let all within give its tasks to these workers. Raises InputError."""
        return workers(self.executor, self.threads)


def _titled(annotation: Any, title: str) -> Any:
    """The annotation of an option, its help under a title."""
    option = copy(annotation.__metadata__[0])
    option.rich_help_panel = title
    return Annotated[annotation.__origin__, option]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its groups as parameters of their own, as typer reads them."""
    hints, parameters, groups = get_type_hints(command, include_extras=True), [], {}
    for p in signature(command).parameters.values():
        group = hints[p.name]
        if not is_dataclass(group):
            parameters.append(p.replace(kind=Parameter.KEYWORD_ONLY, annotation=group))
            continue
        groups[p.name], types = group, get_type_hints(group, include_extras=True)
        title = (group.__doc__ or "").partition(":")[0]
        for f in fields(group):
            parameters.append(
                Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=_titled(types[f.name], title))
            )

    @wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = cast(Any, group)(**{f.name: values.pop(f.name) for f in fields(group)})
        command(**values)

    # typer reads the signature and, for types, the annotations; it would follow __wrapped__ back to the command
    call.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    del call.__wrapped__
    return call
