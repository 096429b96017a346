"""jobwise learns how to schedule a cluster from its own job log, and proves on that log what the schedule is worth.

    import jobwise as jw
    w = jw.read_swf("trace.swf.gz")
    r = jw.simulate(w, "sjf+easy")
    r.summary()["bounded_slowdown"]

Names are loaded at first use: `import jobwise` itself costs next to nothing.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_WHERE = {
    "Cluster": "cluster",
    "pool": "cluster",
    "nodes": "cluster",
    "Workload": "jobs",
    "workload": "jobs",
    "read_swf": "workloads.swf",
    "write_swf": "workloads.swf",
    "read_sacct": "workloads.sacct",
    "lublin": "workloads.lublin",
    "open_log": "workloads.source",
    "simulate": "simulate",
    "Record": "simulate",
    "Simulation": "sim.simulation",
    "compare": "compare",
    "ListScheduler": "policies.listing",
    "resolve": "policies.names",
    "Start": "decision",
    "Preempt": "decision",
    "Reserve": "decision",
    "Wait": "decision",
    "View": "decision",
    "Policy": "decision",
    "InputError": "errors",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'jobwise' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"jobwise.{_WHERE[name]}"), name)
    globals()[name] = found  # also undoes the binding of the submodules `simulate` and `compare`
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
