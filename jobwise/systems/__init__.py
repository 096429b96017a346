"""Published systems, one file each: its configuration, and how it is composed of the shared parts.

A name is that of the published agent, with its learner, rewards and defaults; with a "+" it is ours, in the same world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwise import extensions
from jobwise.errors import InputError, unknown
from jobwise.policies import left
from jobwise.worlds.spec import load, worlds

if TYPE_CHECKING:
    from jobwise.workload import Workload

PRESETS = ("smoke", "small", "paper")
ON_LOGS = {  # systems that learn from logs: where the function (log, preset) -> configuration is
    "perjob": "jobwise.systems.perjob:configure",
    "sem": "jobwise.systems.sem:configure_sem",
    "dras": "jobwise.systems.sem:configure_dras",
    "dras2": "jobwise.systems.sem:configure_dras2",
    "dras-dql": "jobwise.systems.sem:configure_dql",
    "rlscheduler": "jobwise.systems.rlscheduler:configure",
    "search": "jobwise.systems.search:configure",
    "mars": "jobwise.systems.rla3c:configure",
    "mars+": "jobwise.systems.rla3c:ours",
    "rl-a3c": "jobwise.systems.rla3c:configure_plain",
}


OURS = ("perjob", "search", "failing", "rl-taps-pairs")  # without a paper, and without a "+"


def systems() -> dict[str, str]:
    """Return {system: where its function is}: those that learn from logs, those of worlds, those of other packages ("")."""
    of_worlds = {name: where for spec in worlds().values() for name, where in spec.systems.items()}
    return dict.fromkeys(extensions.names("jobwise.systems"), "") | of_worlds | ON_LOGS


def check(system: str) -> None:
    """Raises InputError for a system that is not known, with the nearest one."""
    known = systems()
    if system not in known:
        left.check("systems", system)
        raise unknown("system", system, known)


def learns_from_logs(system: str) -> bool:
    """Return whether a system learns from a job log: one of ours, or of another package."""
    return system in ON_LOGS or system in extensions.names("jobwise.systems")


def makes_jobs(system: str) -> bool:
    """Return whether a system learns from jobs that its world generates, and takes no log."""
    return any(system in spec.systems and spec.generated for spec in worlds().values())


def published() -> list[str]:
    """Return the systems of papers, in the order of `systems`."""
    return [x for x in systems() if x not in OURS and not x.endswith("+") and x not in extensions.names("jobwise.systems")]


def config_of(policy) -> Any:
    """Return the configuration that a policy of a world of rows was trained with. Raises InputError."""
    spec = worlds().get(getattr(policy, "spec", ""))
    if spec is None or not spec.config:
        raise InputError(f"policy {policy.name} does not say what it was trained with")
    return load(spec.config).of(policy)


def configure(system: str, log: Workload | None, preset: str = "small") -> Any:
    """Return the configuration of a system for a log: `smoke` runs in seconds, `small` in minutes, `paper` as published.

    Raises InputError for an unknown system or preset.
    """
    check(system)
    known = systems()
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    function = load(known[system]) if known[system] else extensions.load("jobwise.systems", system)
    config = function(log, preset)
    return config if config.preset else config.changed(preset=preset)
