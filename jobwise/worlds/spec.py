"""Facts about a world before its import: its names, and the places of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from jobwise import extensions
from jobwise.errors import InputError
from jobwise.extensions import imported

LEARN = ("torch", "gymnasium", "tensorboard")  # packages of the extra `learn` that a training takes


@dataclass(frozen=True)
class SystemSpec:
    """A system that learns: what `jobwise train NAME` asks for.

    `configure`: where the function (log or None, preset) -> configuration is, "module:name"; `config.train(log, folder, …)`
    then makes the policies. `paper`: who published it; "": it is ours. `on_log`: it learns from a log; else its world
    generates jobs, and a log is taken where the configuration takes one. `needs`: packages that its training imports.
    `variants`: where a table {name: changes of the configuration} is, "module:NAME".
    """

    name: str
    configure: str
    paper: str = ""
    on_log: bool = True
    needs: tuple[str, ...] = LEARN
    variants: str = ""


@dataclass(frozen=True)
class WorldSpec:
    """A world in which agents choose: one word, `name`, for its folder, its policies (``NAME:RULE``), its policy files and its
    environment. Parts are written "module:name" and loaded when they are asked for.

    Attributes
    ----------
    name : str
        The word.
    policy : str
        A module with `HEADING`, `named(name)`, `rows()` (where `rules` is true), and the functions of `kinds`.
    env : str
        "module:Name" of environments: NameEnv and NameVectorEnv are registered as ``jobwise/ID-v0`` for each of `ids`.
    ids : tuple of str
        The first is the name of the environment, the others are its old names.
    rules : bool
        Has it rules that are named ``NAME:RULE``?
    kinds : mapping of str to str
        Kind of a policy file -> function (parts, weights, label) -> policy.
    config : str
        The class whose `of(policy)` says what a policy was trained with.
    systems : tuple of SystemSpec
        Those that learn in it.
    generated : mapping of str to str
        Name of generated jobs -> function (name, number, machine) -> Workload.
    `films` : str
        The system whose jobsets show a rule.
    bare : bool
        `jobwise watch` takes its rules without the name of the world.
    """

    name: str
    policy: str
    env: str
    ids: tuple[str, ...]
    rules: bool = True
    kinds: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    systems: tuple[SystemSpec, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    films: str = ""
    bare: bool = False

    def __post_init__(self):
        if not all(isinstance(row, SystemSpec) for row in self.systems):
            raise TypeError(f"world {self.name}: systems is a tuple of SystemSpec")

    @property
    def policies(self) -> Any:
        """The module of its policies."""
        return import_module(self.policy)


def _own(name: str) -> WorldSpec:
    return imported(f"jobwise.worlds.{name}.spec:SPEC")


OWN = ("window", "slots", "gpus", "nodes")


def worlds() -> dict[str, WorldSpec]:
    """Return {name: spec} of the worlds of other packages that load, then of those of jobwise, whose names win."""
    added, _ = extensions.loaded("jobwise.worlds")
    return {n: spec for n, spec in added.items() if isinstance(spec, WorldSpec)} | {name: _own(name) for name in OWN}


def world(name: str) -> WorldSpec | None:
    """Return the spec of a world, None where there is none. Raises InputError where that of another package is broken."""
    if name in OWN:
        return _own(name)
    spec = extensions.load("jobwise.worlds", name)
    if spec is not None and not isinstance(spec, WorldSpec):
        raise InputError(f"the entry point {name!r} of jobwise.worlds names a {type(spec).__name__}; a WorldSpec is expected")
    return spec


def generated() -> dict[str, str]:
    """Return {name of generated jobs: where the function is that makes them}."""
    return {name: where for spec in worlds().values() for name, where in spec.generated.items()}


def kinds() -> dict[str, str]:
    """Return {kind of a policy file: where the function is that reads it} of all worlds."""
    return {kind: f"{spec.policy}:{name}" for spec in worlds().values() for kind, name in spec.kinds.items()}
