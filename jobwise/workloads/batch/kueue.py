"""Kubernetes' Kueue: `kubectl get workloads -A -o json`, a workload a job: from creation to the last admission and the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

QUANTITY = re.compile(r"(\d*\.?\d+(?:[eE]\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi)?")
FACTORS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
FACTORS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
GPU = re.compile(r"(nvidia|amd)\.com/(gpu$|mig-)|gpu\.intel\.com/")
READING = (
    "A workload is submitted at its creation, starts when it is admitted for the last time and ends when it has finished; "
    "requests are summed over its pods; MIG slices count as GPUs. Earlier admissions that were evicted are waits.",
)


def knows(f: LogFile) -> bool:
    """Return whether the file has workloads of Kueue."""
    return any("podSets" in x["spec"] for x in f.objects[:20] if isinstance(x.get("spec"), dict))


def read(f: LogFile) -> Workload:
    """Return the workloads that have finished, sized in GPUs where any has some, else in CPUs. Raises InputError."""
    t = JobTable(f.source, f.name, reading=READING)
    t.add_rows(enumerate(f.objects, 1), _job)
    t.size = "gpus" if t.parts and np.nan_to_num(t.column("gpus")).any() else "processors"
    return t.workload(f.procs)


def _job(x: dict[str, Any]) -> dict[str, object]:
    about, spec, status = (x.get(k) or {} for k in ("metadata", "spec", "status"))
    when = {c.get("type"): c for c in status.get("conditions") or [] if isinstance(c, dict)}
    admitted, finished = when.get("Admitted") or when.get("QuotaReserved") or {}, when.get("Finished") or {}
    cpus, gpus, memory = _requests(spec.get("podSets") or [])
    is_done = finished.get("status") == "True"
    return {
        "submit": about.get("creationTimestamp"),
        "start": admitted.get("lastTransitionTime") if is_done else "",
        "end": finished.get("lastTransitionTime") if is_done else "",
        "walltime": spec.get("maximumExecutionTimeSeconds") or "",
        "processors": max(round(cpus), 1),
        "gpus": gpus,
        "memory": memory / 1e6,
        "user": about.get("namespace"),
        "queue": spec.get("queueName"),
        "status": "" if not is_done else "failed" if finished.get("reason") == "Failed" else "completed",
    }


def _requests(sets: list[dict[str, Any]]) -> tuple[float, int, float]:
    """(CPUs, GPUs, bytes) of all pods."""
    cpus, gpus, memory = 0.0, 0.0, 0.0
    for one in sets:
        pod = (one.get("template") or {}).get("spec") or {}
        for container in pod.get("containers") or []:
            asked = container.get("resources") or {}
            every = {**(asked.get("limits") or {}), **(asked.get("requests") or {})}
            count = int(one.get("count") or 1)
            cpus += count * _quantity(every.get("cpu", 0))
            memory += count * _quantity(every.get("memory", 0))
            gpus += count * sum(_quantity(v) for k, v in every.items() if GPU.match(k))
    return cpus, round(gpus), memory


def _quantity(text: Any) -> float:
    match = QUANTITY.fullmatch(str(text))
    return float(match[1]) * FACTORS.get(match[2] or "", 1.0) if match else 0.0
