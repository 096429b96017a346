"""Published experiments by command: `jobwise reproduce NAME`. A study is a list of sections; finished pieces are kept.

Every piece of work is a function that returns plain values; they are written to `OUT/pieces/*.json` as they are done, so
that an interrupted study goes on where it stopped. Figures and tables are made from them at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobwise.compare.intervals import over_seeds
from jobwise.errors import InputError, unknown
from jobwise.files import write_whole
from jobwise.report.sections import Section

if TYPE_CHECKING:
    from jobwise.workload import Workload


ONE_SEED = ("quality", "forest", "forecast")  # studies in which a second seed would be a choice to make


class Study:
    """A folder with the finished pieces of a study. `say(text)` tells what is being done; `threads` train."""

    def __init__(self, out: str | Path, about: dict, say: Callable[[str], None] = lambda text: None, threads: int = 2):
        self.out, self.say, self.threads = Path(out), say, threads
        (self.out / "pieces").mkdir(parents=True, exist_ok=True)
        file = self.out / "study.json"
        if file.exists() and json.loads(file.read_text()) != json.loads(json.dumps(about)):
            raise InputError(f"{self.out}: holds another study ({file.read_text()[:120]} …); name another folder")
        write_whole(file, json.dumps(about))

    def piece(self, name: str, work: Callable[[], Any]) -> Any:
        """The result of `work`, done now or kept from before."""
        file = self.out / "pieces" / f"{name}.json"
        if not file.exists():
            self.say(name.replace("-", " "))
            write_whole(file, json.dumps(work(), default=float))
        return json.loads(file.read_text())

    def train(self, config: Any, log: Workload | None, name: str, seed: int | None = None) -> Any:
        """One training run of the study, of any system, gone on with if it was interrupted."""
        self.say(f"train {name}")
        changes = {"threads": self.threads} | ({} if seed is None else {"seed": seed})
        return config.changed(**changes).train(log, self.folder(name), resume=True)[0]

    def folder(self, name: str) -> Path:
        """Where a training run of the study goes."""
        return self.out / "runs" / name


def text_interval(x: Sequence[float], digits: int = 1) -> str:
    """ "mean [low, high]"."""
    mean, low, high = over_seeds(x)
    return f"{mean:.{digits}f}" if np.isnan(low) else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def reproduce(
    name: str, folder: str | Path | None, out: str | Path, *, preset: str = "small", seeds: int = 3, threads: int = 2, say=print
) -> list[Section]:
    """Run a study on the logs of `folder`; the sections of its report. Raises InputError."""
    from jobwise.studies import cush, deeprm, forecast, forest, learners, mars, quality, rlscheduler, rltaps, sem, telemetry

    studies = {
        "sem": sem.study,
        "rlscheduler": rlscheduler.study,
        "learners": learners.study,
        "quality": quality.study,
        "deeprm": deeprm.study,
        "cush": cush.study,
        "rl-taps": rltaps.study,
        "mars": mars.study,
        "telemetry": telemetry.study,
        "forest": forest.study,
        "forecast": forecast.study,
    }
    if name not in studies:
        raise unknown("study", name, studies)
    if folder is None and name not in ("deeprm", "cush", "rl-taps", "telemetry"):
        raise InputError(f"the study {name} replays logs: --logs names the folder with the SWF files")
    if name in ONE_SEED and seeds != 1:
        raise InputError(f"the study {name} learns once; there is no use for {seeds} seeds")
    about = {"study": name, "preset": preset}  # seeds may be added later
    if preset not in ("smoke", "small", "paper"):
        raise unknown("preset", preset, ("smoke", "small", "paper"))
    return studies[name](None if folder is None else Path(folder), Study(out, about, say, threads), preset, seeds)


def read_log(folder: Path, start: str):
    """The log in `folder` whose file name begins so. Raises InputError where there is none."""
    from jobwise.workloads.swf import read_swf

    found = sorted(p for p in folder.glob("*") if p.name.startswith(start))
    if not found:
        raise InputError(f"{folder}: there is no log {start}*; --logs names the folder with the SWF files")
    return read_swf(found[0])
