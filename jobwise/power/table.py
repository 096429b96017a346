"""The table of a site: what its nodes, cores and GPUs draw, in W; when idle nodes go off, and what is known of the meter."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from math import inf, isfinite
from pathlib import Path
from typing import Any

from jobwise.errors import InputError, in_a_line, shown

MOST = 1e7  # W of one node, core or GPU


@dataclass(frozen=True)
class PowerTable:
    """What a site's nodes draw. A job adds `core` a core, `gpu` a GPU and `node` a node; the nodes draw `idle` each whatever
    they do, and `off` where they have been idle for `suspend` min, from which they come back in `wake` s. All may be wrong by
    `plus_minus`, all in one direction. `cores` of a node (0: those of the cluster). `meter`: MWh that were measured."""

    idle: float = 0.0
    core: float = 0.0
    gpu: float = 0.0
    node: float = 0.0
    plus_minus: float = 0.0
    cores: int = 0
    off: float = 0.0
    suspend: float = 0.0
    wake: float = 0.0
    meter: float = 0.0

    def __post_init__(self):
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
            if not number or not 0 <= value <= (1.0 if name == "plus_minus" else MOST):
                most = "1" if name == "plus_minus" else f"{MOST:,.0f}"
                raise InputError(f"{name} = {value!r}: a number from 0 to {most} is expected")
        if self.cores != int(self.cores):
            raise InputError(f"cores = {self.cores!r}: a whole number is expected")
        if self.off > self.idle:
            raise InputError(f"off = {self.off:g}: a node that is off draws no more than one that is idle ({self.idle:g} W)")

    @property
    def suspend_s(self) -> float:
        """The s after which an idle node goes off; inf: never."""
        return self.suspend * 60.0 if self.suspend > 0 else inf

    @property
    def estimates(self) -> bool:
        """Return whether it says what jobs draw."""
        return max(self.core, self.gpu, self.node) > 0


def read_table(path: str) -> PowerTable:
    """Read a table (TOML). Raises InputError: file, key, and what would be right."""
    try:
        known: dict[str, Any] = tomllib.loads(Path(path).read_text())
    except OSError as error:
        lines = "a table of lines such as `idle = 120` (W of an idle node), `core = 5` and `cores = 48` is expected"
        raise InputError(f"{path}: {error.strerror or error}; {lines}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {in_a_line(error)}; lines such as `idle = 120` are expected") from None
    names = [f.name for f in fields(PowerTable)]
    if wrong := [k for k in known if k not in names]:
        raise InputError(f"{path}: {shown(wrong)}: not known; a table has {', '.join(names)}")
    try:
        return PowerTable(**known)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
