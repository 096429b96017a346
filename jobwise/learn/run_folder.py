"""Run folders: the configuration and the files of a training run, and the parts of a log that it uses. No torch.

A run folder holds `run.json` (resolved configuration, versions, log), `metrics.jsonl`, checkpoints and `policy.safetensors`.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobwise import __version__
from jobwise.compare.fingerprint import public_hash
from jobwise.errors import InputError, shown
from jobwise.files import lock, write_whole, writing
from jobwise.policies.names import load
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, shake

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

RUN_FILES = re.compile(
    r"seed\d+|lock$|origin.*|\..*|run\.json|metrics\.jsonl|checkpoint.*|.*\.safetensors|events\..*"
)  # in a run folder
TRAIN = 0.6  # share of the log where training ends and validation begins; at SEEN the test part begins


def explained(error: ValidationError, model: type[BaseModel], where: str = "configuration") -> InputError:
    """One line, naming the key."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"])) or "?"
    hint = f"; known: {', '.join(model.model_fields)}" if first["type"] == "extra_forbidden" else ""
    return InputError(f"{where}: {key}: {first['msg']}{hint}")


def about_run(config: BaseModel, log: Workload) -> dict:
    """Return what `run.json` says: the resolved configuration, the log with a hash of its public columns, versions."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    return {
        "config": config.model_dump(),
        "log": {"name": log.name, "jobs": len(log), "processors": log.cluster.processors, "sha256": public_hash(log)},
        "versions": {
            "jobwise": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch,
        },
    }


def usual(config: BaseModel) -> dict:
    """Return the usual values of settings, which runs of earlier versions had where they did not know a setting."""
    return {k: f.default for k, f in type(config).model_fields.items()}


def check_same(folder: Path, about: dict, known: dict) -> None:
    """Raises InputError where the run in `folder` was begun with another configuration or log; `known`: see `usual`."""
    try:
        before = json.loads((folder / "run.json").read_text())
        for key in ("config", "log"):
            old, new = before[key], about[key]
            for which in new:
                if which == "system" and f"{old.get(which)}+" == new[which]:
                    continue  # ours had the name of the published one before 0.2
                if which not in old and which in known and new[which] == known[which]:
                    continue
                if old.get(which) != new[which]:
                    raise InputError(f"{folder}: was begun with {which} = {old.get(which)!r}, not {new[which]!r}")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: its run.json is missing or damaged: {error}") from None


def opened(folder: Path, config: BaseModel, log: Workload, resume: bool) -> bool:
    """Begin a run in this folder, or check that the run in it can go on. Return whether it holds one. Raises InputError."""
    about = about_run(config, log)
    if (folder / "run.json").exists():
        if not resume:
            raise InputError(f"{folder}: holds a run already; --resume goes on with it, or name another folder")
        check_same(folder, about, usual(config))
        return True
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "run.json", json.dumps(about, indent=1))
    return False


def parts(w: Workload) -> tuple[Workload, Workload, Workload]:
    """(training, validation, test), in time: 60 %, 10 %, 30 % of the jobs. Raises InputError for too short a log."""
    a, b = int(TRAIN * len(w)), int(SEEN * len(w))
    if a < 2 or b - a < 2 or len(w) - b < 2:
        raise InputError(f"{w.name}: {len(w)} jobs are too few to learn from, validate and test")
    return w.take(slice(0, a)), w.take(slice(a, b)), w.take(slice(b, None))


def windows(w: Workload, jobs: int, count: int, shake_s: float = 0.0, seed: int = 0) -> list[Workload]:
    """Up to `count` evenly spaced windows of `jobs` consecutive jobs (fewer where the log is short), time-shifted once."""
    jobs = min(jobs, len(w))
    first = np.unique(np.linspace(0, len(w) - jobs, min(count, max(len(w) // jobs, 1) * 4)).astype(int))
    parts_of_log = [w.take(slice(i, i + jobs)) for i in first]
    return [shake(x, shake_s, [seed, int(i)]) for i, x in zip(first, parts_of_log, strict=True)] if shake_s else parts_of_log


def score(x: np.ndarray) -> float:
    """Return validation's score, smaller is better, of mean bounded slowdowns of windows [W]: the geometric mean of the mean
    and the geometric mean. The mean alone depends on a few windows; the geometric mean alone ignores them."""
    return float(np.exp(0.5 * np.log(np.mean(x)) + 0.5 * np.log(x).mean()))


def run_folders(folder: str | Path, seeds: int) -> list[Path]:
    """Return the folder of each seed's run. Raises InputError where one cannot be used."""
    if seeds < 1:
        raise InputError(f"{seeds} seeds are none")
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the run")
    strange = sorted(p.name for p in folder.iterdir() if not RUN_FILES.match(p.name)) if folder.exists() else []
    if strange and not (folder / "run.json").exists() and not (folder / "seed0").exists():
        raise InputError(f"{folder}: holds other files ({shown(strange, 3)}); name a new folder for the run")
    other = folder / ("run.json" if seeds > 1 else "seed0")
    if other.exists():
        raise InputError(
            f"{folder}: holds {'a run of one seed' if seeds > 1 else 'runs of several seeds'}; name another folder"
        )
    return [folder / f"seed{k}" for k in range(seeds)] if seeds > 1 else [folder]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else trains in this folder, and what cannot be written is named. Raises InputError. (Processes of torchrun work
    on one run: the first of them has the folder.)"""
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    held = lock(folder / "lock", f"{folder}: another process trains in this folder")
    try:
        with writing(folder):
            yield
    finally:
        held.close()
        if is_new and [p.name for p in folder.iterdir()] == ["lock"]:  # it came to nothing
            (folder / "lock").unlink()
            folder.rmdir()


def per_seed(
    config: Any,
    log: Workload,
    folder: str | Path,
    seeds: int,
    resume: bool,
    report: Callable[[int, dict], None] | None,
    one: Callable,
) -> list:
    """Make a run per seed (config.seed, config.seed + 1, …), in `folder`, or its folders seed0, seed1 …

    `one(configuration, folder, report)` makes the run. With several seeds the best policy in validation becomes the
    folder's own `policy.safetensors`. A finished seed is read again. Raises InputError.
    """
    policies = []
    for k, place in enumerate(run_folders(folder, seeds)):
        settings = config.changed(seed=config.seed + k)
        if resume and (place / "policy.safetensors").exists():
            check_same(place, about_run(settings, log), usual(settings))
            policies.append(load(place))
        else:
            with _alone(place):
                policies.append(one(settings, place, None if report is None else lambda line, k=k: report(k, line)))
    if seeds > 1:
        best = min(range(seeds), key=lambda k: policies[k].about["validation"])
        kept = Path(folder) / f"seed{best}" / "policy.safetensors"
        write_whole(Path(folder) / "policy.safetensors", kept.read_bytes())
    return policies
