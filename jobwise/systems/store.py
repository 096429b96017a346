"""The model store of MARS: a folder of models, one for each kind of work, each with its generations.

    STORE/m000/model.json             what is known: signature, generations, who schedules, what every window showed
    STORE/m000/present.7.safetensors  the net that learns, as the last window left it
    STORE/m000/g5.safetensors         confirmed generations, G_m-1 and G_m-2

`-p STORE/m000` is what schedules now: a generation, or a rule; `model.json` says which.

A window is a run of jobs in time, or a workflow as it ran: its tasks with the run times that were measured. At its end the
present net, the generations and the rule are measured on it, which none has learnt from; the rule of
`jobwise.learn.generations` says who schedules the next one; then the net learns from it. Files are written whole, and
`model.json` names the others and comes last: a run that is killed at any moment leaves the store as it was after the last
whole window.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compare.fingerprint import CHANCE, seen
from jobwise.errors import InputError
from jobwise.learn.config import Config
from jobwise.systems.model import Model
from jobwise.systems.model_about import About, several
from jobwise.workload import Workload
from jobwise.workloads.bundles import EVEN, Weights
from jobwise.workloads.signatures import ALIKE, signature, similarity
from jobwise.workloads.workflows import Workflow, from_jobs


class Store:
    """The models of a folder, which need not be there yet. Raises InputError for a folder of something else."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if self.folder.exists():
            if not self.folder.is_dir():
                raise InputError(f"{folder}: is a file; a model store is a folder")
            strange = [p.name for p in self.folder.iterdir() if not (p.is_dir() and p.name[:1] == "m" and p.name[1:].isdigit())]
            if strange:
                raise InputError(f"{folder}: is no model store: it holds {strange[0]}")

    def models(self) -> list[Model]:
        """All that have learnt from a window at least."""
        return [Model(p) for p in sorted(self.folder.glob("m*")) if (p / "model.json").exists()]

    def nearest(self, wanted: np.ndarray, machine: Cluster) -> tuple[Model | None, float]:
        """(the model of the most similar work on this machine, how similar it is, at most 1)."""
        ranked = [(similarity(np.array(m.about.signature), wanted), m) for m in self.models() if m.about.is_for(machine)]
        return max(ranked, key=lambda x: x[0])[::-1] if ranked else (None, 0.0)

    def for_log(self, log: Workload, config: Config, size: int, beta: float | None = None) -> Model:
        """The model of this log, which goes on with `config`, and `beta` where it is given; else a new one, in a folder of its
        own, that begins as the model of work that is alike (ALIKE). Raises InputError."""
        if not 4 <= size <= len(log):
            raise InputError(f"{log.name}: windows of {size:,} jobs do not fit a log of {len(log):,}")
        if (log.jobs["flow"] >= 0).any():
            raise InputError(
                f"{log.name}: a log of independent jobs is expected; workflows teach a store as they run (mars run)"
            )
        cores = log.cluster.processors
        for model in self.models():
            a = model.about
            if a.kind == "log" and (a.log, a.cores) == (log.name, cores):
                if a.config.encoding != config.encoding:
                    known = a.config.encoding or "the default"
                    raise InputError(f"{model.folder}: has learnt with the encoding {known}; name another store")
                a.config = config
                if beta is not None and beta != a.asked:
                    a.beta = a.asked = beta
                return model
        own = signature(from_jobs(log.take(slice(0, size))), cores)
        about = About(log=log.name, cores=cores, signature=own.tolist(), config=config, beta=beta or 0.0, asked=beta or 0.0)
        near, alike = self.nearest(own, log.cluster)
        kin = near.net(near.about.present) if near is not None and alike >= ALIKE and near.about.kind == "log" else None
        if kin and near and (near.about.config.encoding != config.encoding or seen(log, kin.about) > CHANCE):
            kin = None  # it sees other costs, or it has learnt from these very jobs
        return Model(self._folder(), about, kin)

    def for_flow(self, flow: Workflow, machine: Cluster, config: Config, weights: Weights = EVEN) -> Model:
        """The model of workflows like this one (ALIKE) on this machine, which goes on with `config`; else a new one. `weights`
        of CPU, memory and I/O in what is alike."""
        own = signature(flow, machine, weights)
        near, alike = self.nearest(own, machine)
        if near is not None and alike >= ALIKE and near.about.kind == "flows":
            near.about.config = config.changed(encoding=near.about.config.encoding)
            return near
        where = {"cores": machine.processors, "machine": several(machine)}
        return Model(self._folder(), About(kind="flows", log=flow.name, **where, signature=own.tolist(), config=config))

    def _folder(self) -> Path:
        """The first that holds no model."""
        k = 0
        while (self.folder / f"m{k:03d}" / "model.json").exists():
            k += 1
        folder = self.folder / f"m{k:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
