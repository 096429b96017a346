"""The resource managers that `jobwise mars run` knows, by name. A new one is a class with the interface of `ResourceManager`,
and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jobwise.errors import InputError, unknown
from jobwise.slurm.client import Slurm
from jobwise.workflows.processes import LocalProcesses
from jobwise.workflows.simulated import ResourceManager, Simulated

CORES = 64  # of the simulator
SIMULATED = "simulator.jsonl"  # its journal in the state folder


@dataclass(frozen=True)
class ToldMachine:
    """The user's description of the machine: its cores (None: as it is), GPUs and memory (MB; 0: not counted); `folder` for a
    manager's files; `seconds`: the run time of each task, for a simulation."""

    folder: Path
    seconds: list[float]
    procs: int | None = None
    gpus: int = 0
    memory: int = 0


def _simulated(m: ToldMachine) -> ResourceManager:
    shared = {k: v for k, v in {"memory": m.memory, "gpus": m.gpus}.items() if v}
    file = m.folder / SIMULATED
    begun = m.folder / "ledger.jsonl"
    if not file.exists() and begun.is_file() and '"event": "submit"' in begun.read_text(errors="replace"):
        where = "elsewhere, or by an earlier jobwise"
        raise InputError(
            f"{m.folder}: the run there was begun {where}, and the simulator cannot take it up; name another --state folder"
        )
    return Simulated(m.procs or CORES, lambda name: m.seconds[int(name.split(".")[1])], shared=shared, journal=file)


def _slurm(m: ToldMachine) -> ResourceManager:
    if m.procs is not None or m.gpus or m.memory:
        raise InputError("--procs, --gpus and --memory are for the simulator and for processes; Slurm knows its own nodes")
    return cast(Any, Slurm())  # it names the arguments that the interface takes together


def _processes(m: ToldMachine) -> ResourceManager:
    return LocalProcesses(m.folder / "processes", m.procs or 0, m.gpus, m.memory)


MANAGERS: dict[str, Callable[[ToldMachine], ResourceManager]] = {
    "simulator": _simulated,
    "slurm": _slurm,
    "processes": _processes,
}


def manager(name: str, machine: ToldMachine) -> ResourceManager:
    """The resource manager of a name. Raises InputError."""
    if name not in MANAGERS:
        raise unknown("manager", name, MANAGERS, "--executor: ")
    if name != "simulator" and (machine.folder / SIMULATED).exists():
        raise InputError(f"{machine.folder}: the run there was begun on the simulator; name another --state folder")
    return MANAGERS[name](machine)
