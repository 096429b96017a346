"""Published systems, one file each: its configuration, and how it is composed of the shared parts.

A name is that of the published agent, with its learner, rewards and defaults; with a "+" it is ours, in the same world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwise import extensions
from jobwise.errors import InputError, unknown
from jobwise.extensions import imported
from jobwise.policies import left
from jobwise.worlds.spec import SystemSpec, worlds

if TYPE_CHECKING:
    from jobwise.workload import Workload

GROUP = "jobwise.systems"
PRESETS = ("smoke", "small", "paper")


def _own() -> dict[str, SystemSpec]:
    """Return the rows of the systems of worlds by name."""
    return {row.name: row for spec in worlds().values() for row in spec.systems}


def systems() -> dict[str, SystemSpec]:
    """Return the rows of all systems by name: those of the worlds; of other packages, whose entry points name a SystemSpec or a
    function (log, preset) -> configuration, only where no world has the name."""
    own = _own()
    return {name: _added(name) for name in extensions.names(GROUP) if name not in own} | own


def _added(name: str) -> SystemSpec:
    """Return the row of another package's system; where it does not load, one that says so once it is configured."""
    try:
        thing = extensions.load(GROUP, name)
    except InputError:
        thing = None
    return thing if isinstance(thing, SystemSpec) else SystemSpec(name, extensions.where(GROUP, name))


def system(name: str) -> SystemSpec:
    """Return the row of a system. Raises InputError for one that is not known, with the nearest one."""
    known = systems()
    if name not in known:
        left.check("systems", name)
        raise unknown("system", name, known)
    return known[name]


def published() -> list[str]:
    """Return the names of the systems of papers."""
    return [name for name, row in systems().items() if row.paper]


def config_of(policy: Any) -> Any:
    """Return the configuration that a policy of a world of rows was trained with. Raises InputError."""
    spec = worlds().get(policy.spec)
    if spec is None or not spec.config:
        raise InputError(f"policy {policy.name} does not say what it was trained with")
    return imported(spec.config).of(policy)


def configure(name: str, log: Workload | None, preset: str = "small", variant: str = "") -> Any:
    """Return the configuration of a system for a log: `smoke` runs in seconds, `small` in minutes, `paper` as published;
    `variant`: changed as its table of variants says.

    Raises InputError for an unknown system, preset or variant.
    """
    row = system(name)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if name not in _own():
        with extensions.of_package(GROUP, name, "does not load"):
            function = imported(row.configure)
    else:
        function = imported(row.configure)
    config = function(log, preset)
    if variant:
        table = imported(row.variants) if row.variants else {}
        if variant not in table:
            raise unknown(f"variant of {name}", variant, table) if table else InputError(f"{name} has no variants")
        config = config.changed(**table[variant])
    return config if config.preset else config.changed(preset=preset)
