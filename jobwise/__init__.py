"""jobwise learns how to schedule a cluster from its own job log, and proves on that log what the schedule is worth.

    import jobwise as jw
    w = jw.read_swf("trace.swf.gz")
    r = jw.simulate(w, "sjf+easy")
    r.summary()["bounded_slowdown"]

Names are loaded at first use: `import jobwise` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from jobwise.registration import hook

__version__ = "0.2.0"

_WHERE = {
    "Cluster": "cluster",
    "pool": "cluster",
    "nodes": "cluster",
    "resources": "cluster",
    "Workload": "workload",
    "workload": "workload",
    "read_swf": "workloads.swf",
    "write_swf": "workloads.swf",
    "read_sacct": "workloads.sacct",
    "lublin": "workloads.lublin",
    "campaigns": "workloads.campaigns",
    "deeprm": "workloads.jobsets",
    "cush": "workloads.jobsets",
    "rltaps": "workloads.dnn",
    "distances": "workloads.affinity",
    "affinities": "workloads.affinity",
    "failing": "workloads.failing",
    "Slowdown": "cluster",
    "gpu_racks": "sim.topology",
    "open_log": "workloads.source",
    "open_workflow": "workloads.source",
    "stream": "workloads.streams",
    "simulate": "simulate",
    "simulate_many": "simulate",
    "Record": "record",
    "Simulation": "sim.simulation",
    "compare": "compare",
    "probe": "learn.probe",
    "as_policy": "worlds.window.policy",
    "workers": "parallel",
    "ListScheduler": "policies.list_scheduler",
    "resolve": "policies.names",
    "Start": "decision",
    "Preempt": "decision",
    "Reserve": "decision",
    "Wait": "decision",
    "View": "decision",
    "Policy": "decision",
    "InputError": "errors",
    "NeuralPolicy": "worlds.window.policy",
    "load_policy": "policies.names",
    "Episodes": "worlds.window.episodes",
    "WindowSettings": "worlds.window.settings",
    "Act": "worlds.window.settings",
    "WindowPolicy": "worlds.window.policy",
    "Encoder": "worlds.window.encoder",
}
_CALLED = {
    "load_policy": "load",
    "Act": "WindowSettings",
    "NeuralPolicy": "WindowPolicy",
}  # by other names there
__all__ = sorted(_WHERE)


class _Lazy(ModuleType):
    """Loads public names at first use. `simulate` and `compare` are functions here although files bear their names."""

    def __getattr__(self, name: str):
        if name not in _WHERE:
            raise AttributeError(f"module 'jobwise' has no attribute {name!r}")
        thing = getattr(importlib.import_module(f"jobwise.{_WHERE[name]}"), _CALLED.get(name, name))
        super().__setattr__(name, thing)
        return thing

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _WHERE and isinstance(value, ModuleType)):  # the import system binds submodules by this
            super().__setattr__(name, value)

    def __reduce__(self):  # functions of a user's script that name it go to other processes
        return importlib.import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        return __all__


sys.modules[__name__].__class__ = _Lazy
hook()
