"""Published systems, one file each: its configuration, and how it is composed of the shared parts."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jobwise.errors import unknown
from jobwise.workload import Workload

PRESETS = ("smoke", "small", "paper")
SYSTEMS = {  # name: (file, function); files are read when they are needed, for some need torch
    "perjob": ("perjob", "configure"),
    "sem": ("sem", "configure_sem"),
    "dras": ("sem", "configure_dras"),
    "dras2": ("sem", "configure_dras2"),
    "rlscheduler": ("rlscheduler", "configure"),
    "search": ("search", "configure"),
    "deeprm": ("deeprm", "configure"),
    "cush": ("cush", "configure"),
    "rl-taps": ("rltaps", "configure"),
    "distances": ("telemetry", "distances"),
    "affinities": ("telemetry", "affinities"),
    "failing": ("telemetry", "failing"),
    "mars": ("rla3c", "configure"),
    "flow-net": ("flow_net", "configure"),
    "smith-forecast": ("forecast", "configure"),
    "rl-a3c": ("rla3c", "configure_plain"),
}


CONFIGS = {  # of systems that learn on jobsets, in slots all others: (file, class)
    "rl-taps": ("assign_config", "AssignConfig"),
    "distances": ("place_config", "PlaceConfig"),
    "affinities": ("place_config", "PlaceConfig"),
    "failing": ("place_config", "PlaceConfig"),
}


def config_of(policy) -> Any:
    """What a policy of a world of rows was trained with. Raises InputError."""
    file, name = CONFIGS.get(str(policy.about.get("system")), ("slots_config", "GridConfig"))
    return getattr(import_module(f"jobwise.learn.{file}"), name).of(policy)


def configure(system: str, log: Workload | None, preset: str = "small") -> Any:
    """The configuration of a system for a log: `smoke` runs in seconds, `small` in minutes, `paper` as published."""
    if system not in SYSTEMS:
        raise unknown("system", system, SYSTEMS)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    file, function = SYSTEMS[system]
    found = getattr(import_module(f"jobwise.systems.{file}"), function)(log, preset)
    return found if found.preset else found.changed(preset=preset)
