"""Published experiments by command: `jobwise reproduce NAME`. A study is a list of sections; finished pieces are kept.

Every piece of work is a function that returns plain values; they are written to `OUT/pieces/*.json` as they are done, so
that an interrupted study goes on where it stopped. Figures and tables are made from them at the end.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobwise.compare.intervals import over_seeds
from jobwise.errors import InputError, unknown
from jobwise.files import write_whole
from jobwise.report.sections import Section
from jobwise_experiments import GENERATED, ONE_SEED, STUDIES

if TYPE_CHECKING:
    from jobwise.workload import Workload


NOT_SHORT = ("forest",)  # trees are learnt whole at every preset but `smoke`, where there are few of them
SHORT = {
    "smoke": "Preset smoke trains for seconds and judges on few jobs, to show that everything runs. Its numbers say nothing of "
    "the methods, and no conclusion is drawn from them.",
    "small": "Preset small trains for minutes, where the published trainings take hours or days. Learned policies may be far "
    "from what they would become; a difference between them and rules is a finding about trainings of this length.",
}


class Study:
    """A folder with the finished pieces of a study. `show(done, total, text)` is told which of its parts is being done, and
    what of it; `threads` train. `kept`: pieces of an earlier run that need not be done again."""

    def __init__(self, out: str | Path, about: dict, show: Callable[[int, int, str], None] | None = None, threads: int = 2):
        self.out, self.show, self.threads = Path(out), show, threads
        self.done, self._part, self._parts = 0, 0, 1
        (self.out / "pieces").mkdir(parents=True, exist_ok=True)
        self.kept = len(list((self.out / "pieces").glob("*.json")))
        file = self.out / "study.json"
        if file.exists() and json.loads(file.read_text()) != json.loads(json.dumps(about)):
            raise InputError(f"{self.out}: holds another study ({file.read_text()[:120]} …); name another folder")
        write_whole(file, json.dumps(about))

    def say(self, text: str) -> None:
        """Tell what is being done."""
        if self.show:
            pieces = f"{self.done} piece{'s' * (self.done != 1)} done"
            self.show(self._part, self._parts, f"part {self._part + 1} of {self._parts}, {pieces}: {text}")

    def parts(self, *steps: Callable[[], Section | list[Section]]) -> list[Section]:
        """The sections of every step, done one after the other."""
        sections: list[Section] = []
        self._parts = len(steps)
        for self._part, step in enumerate(steps):
            made = step()
            sections += made if isinstance(made, list) else [made]
        return sections

    def piece(self, name: str, work: Callable[[], Any]) -> Any:
        """The result of `work`, done now or kept from before."""
        file = self.out / "pieces" / f"{name}.json"
        if not file.exists():
            self.say(name.replace("-", " "))
            write_whole(file, json.dumps(work(), default=float))
            self.done += 1
        return json.loads(file.read_text())

    def train(self, config: Any, log: Workload | None, name: str, seed: int | None = None) -> Any:
        """One training run of the study, of any system, gone on with if it was interrupted."""
        changes = {"threads": self.threads} | ({} if seed is None else {"seed": seed})
        self.say(f"training {name}")

        def report(k: int, line: dict) -> None:
            self.say(f"training {name}, {line.get('part', 0.0):.0%}")

        return config.changed(**changes).train(log, self.folder(name), resume=True, report=report)[0]

    def folder(self, name: str) -> Path:
        """Where a training run of the study goes."""
        return self.out / "runs" / name


@cache
def _sections(study: str) -> dict[str, str]:
    """The sections of prose/STUDY.md by their titles, each as one line."""
    pieces = (Path(__file__).parent / "prose" / f"{study}.md").read_text().split("\n## ")[1:]
    return {title.strip(): " ".join(body.split()) for title, _, body in (x.partition("\n") for x in pieces)}


def prose(study: str, section: str, **values: Any) -> str:
    """Return the words of a section of prose/STUDY.md, with these values in the places of their {names}."""
    return _sections(study)[section].format(**values)


def anchors(study: str) -> dict[str, Any]:
    """Return the published numbers of anchors/STUDY.toml that a study sets beside ours."""
    return tomllib.loads((Path(__file__).parent / "anchors" / f"{study}.toml").read_text())


def text_interval(x: Sequence[float], digits: int = 1) -> str:
    """Return "mean [low, high]" of several seeds."""
    mean, low, high = over_seeds(x)
    return f"{mean:.{digits}f}" if np.isnan(low) else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def reproduce(
    name: str,
    folder: str | Path | None,
    out: str | Path,
    *,
    preset: str = "small",
    seeds: int = 3,
    threads: int = 2,
    show: Callable[[int, int, str], None] | None = None,
) -> list[Section]:
    """Run a study on the logs of `folder`; the sections of its report. `show(part, parts, text)`: how far it is. Raises
    InputError."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    if folder is None and name not in GENERATED:
        raise InputError(f"the study {name} replays logs: --logs names the folder with the SWF files")
    if name in ONE_SEED and seeds != 1:
        raise InputError(f"the study {name} learns once; there is no use for {seeds} seeds")
    about = {"study": name, "preset": preset}  # seeds may be added later
    if preset not in ("smoke", "small", "paper"):
        raise unknown("preset", preset, ("smoke", "small", "paper"))
    study = Study(out, about, show, threads)
    study.say(f"{study.kept} pieces are kept from an earlier run" if study.kept else "begins")
    run = import_module(f"jobwise_experiments.{STUDIES[name]}").study
    sections = run(None if folder is None else Path(folder), study, preset, seeds)
    long = name in NOT_SHORT or preset == "paper"
    return sections if long else [Section("Trained for a short time", SHORT[preset]), *sections]


def read_log(folder: Path, start: str):
    """The log in `folder` whose file name begins so. Raises InputError where there is none."""
    from jobwise.workloads.swf import read_swf

    files = sorted(p for p in folder.glob("*") if p.name.startswith(start))
    if not files:
        raise InputError(f"{folder}: there is no log {start}*; --logs names the folder with the SWF files")
    return read_swf(files[0])
