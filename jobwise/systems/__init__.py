"""Published systems, one file each: its configuration, and how it is composed of the shared parts."""

from __future__ import annotations

from jobwise.errors import unknown
from jobwise.jobs import Workload
from jobwise.train import Config

PRESETS = ("smoke", "small", "paper")


def configure(system: str, log: Workload, preset: str = "small") -> Config:
    """The configuration of a system for a log: `smoke` runs in seconds, `small` in minutes, `paper` as published."""
    from jobwise.systems import perjob, rlscheduler, search, sem

    makers = {
        "perjob": perjob.configure,
        "sem": sem.configure_sem,
        "dras": sem.configure_dras,
        "rlscheduler": rlscheduler.configure,
        "search": search.configure,
    }
    if system not in makers:
        raise unknown("system", system, makers)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    return makers[system](log, preset)
