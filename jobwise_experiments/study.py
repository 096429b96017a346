"""The engine of published experiments: `jobwise reproduce NAME`. A study is a list of parts; finished pieces of work are kept.

Every piece of work is a function that returns plain values; they are written to `OUT/pieces/*.json` as they are done, so
that an interrupted study goes on where it stopped. prose/STUDY.md has every section's title, words and tables (columns, and a
row of formats below them); a part of a study gives the rows. anchors/STUDY.toml has published numbers.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobwise.compare.intervals import over_seeds
from jobwise.errors import InputError, unknown
from jobwise.files import write_whole
from jobwise.learn.judged import change, text
from jobwise.report.sections import Figure, Section, Table
from jobwise_experiments import GENERATED, ONE_SEED, PRESETS, STUDIES, WHOLE

if TYPE_CHECKING:
    from jobwise.workload import Workload

HERE = Path(__file__).parent
NOT_SHORT = ("promise", "trial", "power")  # nothing is trained there


class Study:
    """A study and the folder of its finished pieces. `show(done, total, text)` is told which of its parts is being done;
    `threads` train, on a `device`; `kept`: pieces of an earlier run that need not be done again; `only`: the parts that are
    done, by name (none: all). Raises InputError."""

    def __init__(
        self,
        name: str,
        out: str | Path,
        logs: str | Path | None,
        preset: str,
        seeds: int,
        threads: int,
        show: Callable | None,
        device: str = "cpu",
        only: Sequence[str] = (),
    ):
        self.name, self.preset, self.seeds, self.threads, self.show = name, preset, seeds, threads, show
        self.device, self.only = device, tuple(only)
        self.out, self.logs = Path(out), Path(logs) if logs is not None else None
        self.smoke, self._read = preset == "smoke", dict[str, "Workload"]()
        self.done, self._part, self._parts = 0, 0, 1
        (self.out / "pieces").mkdir(parents=True, exist_ok=True)
        self.kept = len(list((self.out / "pieces").glob("*.json")))
        file, about = self.out / "study.json", {"study": name, "preset": preset}  # seeds may be added later
        if file.exists() and json.loads(file.read_text()) != about:
            raise InputError(f"{self.out}: holds another study ({file.read_text()[:120]} …); name another folder")
        write_whole(file, json.dumps(about))

    def pick(self, smoke: Any, small: Any, paper: Any) -> Any:
        """Return the value that is meant for the preset."""
        return {"smoke": smoke, "small": small, "paper": paper}[self.preset]

    def say(self, words: str) -> None:
        """Tell what is being done."""
        if self.show:
            pieces = f"{self.done} piece{'s' * (self.done != 1)} done"
            self.show(self._part, self._parts, f"part {self._part + 1} of {self._parts}, {pieces}: {words}")

    def parts(self, *steps: Callable[[Study], Section | list[Section]]) -> list[Section]:
        """The sections of every step, done one after the other; of the steps that `only` names. Raises InputError."""
        names = [_names(step) for step in steps]
        for name in self.only:
            if not any(name in x for x in names):
                raise unknown("part", name, [x[-1] for x in names], f"study {self.name}: ")
        steps = tuple(s for s, x in zip(steps, names, strict=True) if not self.only or set(x) & set(self.only))
        sections: list[Section] = []
        self._parts = len(steps)
        for self._part, step in enumerate(steps):
            made = step(self)
            sections += made if isinstance(made, list) else [made]
        return sections

    def piece(self, name: str, work: Callable, *args: Any, **more: Any) -> Any:
        """The result of `work(*args, **more)`, done now or kept from before."""
        file = self.out / "pieces" / f"{name}.json"
        if not file.exists():
            self.say(name.replace("-", " "))
            write_whole(file, json.dumps(work(*args, **more), default=float))
            self.done += 1
        return json.loads(file.read_text())

    def train(self, config: Any, log: Workload | None, name: str, seed: int | None = None) -> Any:
        """One training run of the study, of any system, gone on with if it was interrupted."""
        changes = {"threads": self.threads} | ({} if seed is None else {"seed": seed})
        self.say(f"training {name}")
        begun, before = time.monotonic(), [-1.0]

        def report(k: int, line: dict) -> None:
            part = float(line.get("part", 0.0))
            before[0] = part if before[0] < 0 else before[0]  # a run that was interrupted begins in the middle
            took, done = time.monotonic() - begun, part - before[0]
            left = f", about {_time(took / done * (1.0 - part))} left" if done > 0 else ""
            self.say(f"training {name}, {part:.1%}{left}")

        folder = self.folder(name)
        return config.changed(**changes).train(log, folder, resume=True, device=self.device, report=report)[0]

    def folder(self, name: str) -> Path:
        """Where a training run of the study goes."""
        return self.out / "runs" / name

    def metrics(self, name: str, key: str = "") -> list[dict]:
        """The lines of a training run's metrics that have `key`; none where it has not run."""
        file = self.folder(name) / "metrics.jsonl"
        lines = map(json.loads, file.read_text().splitlines() if file.is_file() else ())
        return [x for x in lines if not key or key in x]

    def log(self, *starts: str, smoke: int | None = None) -> Workload:
        """The log whose file name begins so, the first of several that is there; at the preset smoke the first `smoke` jobs of
        it. Raises InputError."""
        from jobwise.workloads.transform import first

        start = next((x for x in starts[:-1] if files_of(self.logs, x)), starts[-1])
        if start not in self._read:
            self.say(f"read {start}")
            self._read[start] = read_log(self.logs, start)
        log = self._read[start]
        return first(log, min(len(log), smoke)) if smoke and self.smoke else log

    def section(self, key: str, *tables: Iterable, figures: Sequence = (), of: str = "", **values: Any) -> Section:
        """The section `key` of the study's prose (or that of study `of`), with these values in the places of its {names},
        and rows for each of its tables."""
        words, heads = sections_of(of or STUDIES[self.name])[key]
        values = {"seeds": self.seeds, "preset": self.preset} | values
        filled = [_table(*head, rows, values) for head, rows in zip(heads, tables, strict=True)]
        title = key.format(**values)
        drawn = [x if isinstance(x, Figure) else self._named(x, title, k) for k, x in enumerate(figures)]
        text = re.sub(r"(?<![\d,.])1 seeds\b", "1 seed", words.format(**values))
        return Section(title, text, filled, drawn)

    def _named(self, svg: str, title: str, k: int) -> Figure:
        """The k-th figure of a section, under a name made of the section's title."""
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        return Figure(svg, title, f"{self._prefix}-{slug}{f'-{k + 1}' if k else ''}")

    @property
    def _prefix(self) -> str:
        """The first part of the names of figures: those of the paper's size stand beside the smaller ones."""
        return f"{self.name}-paper" if self.preset == "paper" else self.name

    def figure(self, name: str, draw: Callable, width: float = 7.4, height: float = 3.4, label: str = "") -> Figure:
        """A figure for the report and for OUT/figures/STUDY-NAME.svg (STUDY-paper-NAME.svg at the preset paper); the same as
        OUT/figures/NAME.pdf."""
        from jobwise.report.figures import svg

        (self.out / "figures").mkdir(exist_ok=True)
        drawn = svg(draw, width, height, label or name, self.out / "figures" / f"{name}.pdf")
        return Figure(drawn, label or name, f"{self._prefix}-{name}")

    def lines(self, name: str, curves: dict[str, tuple], x: str, y: str, **how: Any) -> Figure:
        """A figure of (x, y) by name."""

        def draw(fig) -> None:
            axes = fig.subplots()
            for label, xy in curves.items():
                axes.plot(*xy, "o-", ms=3, label=label)
            axes.set(xlabel=x, ylabel=y, **how)
            axes.legend()

        return self.figure(name, draw, label=f"{y} by {x}")

    def learning(self, runs: dict[str, list[str]], y: str, figure: str = "curves") -> Figure:
        """A figure of learning curves: validations over choices, one colour for the runs of a label."""

        def draw(fig) -> None:
            axes = fig.subplots()
            for i, (label, names) in enumerate(runs.items()):
                for k, name in enumerate(names):
                    points = [(x["choices"], x["validation"]) for x in self.metrics(name, "validation")]
                    if points:
                        axes.plot(*zip(*points, strict=True), "o-", ms=2.5, lw=1.2, color=f"C{i}", label=None if k else label)
            axes.set(xlabel="choices made in training", ylabel=f"{y} in validation", yscale="log", xscale="log")
            axes.legend()

        return self.figure(figure, draw, label=f"{y} in validation, by choices made in training")


def _time(seconds: float) -> str:
    """A time in words: minutes, from two hours on hours."""
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{max(seconds / 60, 1):.0f} min"


def _names(step: Callable) -> tuple[str, ...]:
    """The names of a part of a study: that of its function, and with what is particular to it, as in published-streaming."""
    name, own = getattr(step, "func", step).__name__, getattr(step, "keywords", {})
    words = [x for x in own.values() if isinstance(x, str)]
    return (name, "-".join([name, *words])) if words else (name,)


class Arms(dict[str, list[dict]]):
    """What the arms of an experiment did on the same jobsets: for each a run per seed, with numbers per jobset (`judged`)."""

    def __init__(self, runs: dict[str, dict | list[dict]]):
        super().__init__({n: x if isinstance(x, list) else [x] for n, x in runs.items()})

    def of(self, arm: str, key: str = "slowdown") -> np.ndarray:
        """[S, K] numbers of an arm, seeds × jobsets."""
        return np.array([x[key] for x in self[arm]])

    def mean(self, arm: str, key: str = "slowdown") -> float:
        """The mean over seeds and jobsets."""
        return float(self.of(arm, key).mean())

    def ratio(self, arm: str, base: str, key: str = "longest") -> float:
        """The ratio of two arms' means."""
        return self.mean(arm, key) / self.mean(base, key)

    def best(self, arms: Iterable[str]) -> str:
        """The arm with the least mean slowdown."""
        return min(arms, key=self.mean)

    def change(self, arm: str, base: str, key: str = "slowdown") -> str:
        """The paired change of an arm against another one, with its interval; nothing against itself."""
        return "" if arm == base else text(change(self.of(arm, key), self.of(base, key).mean(axis=0)))


@cache
def sections_of(study: str) -> dict[str, tuple[str, list[tuple[list[str], list[str]]]]]:
    """Return title -> (words, (columns, formats) of each table) of prose/STUDY.md."""
    sections = {}
    for piece in (HERE / "prose" / f"{study}.md").read_text().split("\n## ")[1:]:
        title, _, body = piece.partition("\n")
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", body, re.M)]
        words = " ".join(re.sub(r"^\|.*\|$", "", body, flags=re.M).split())
        sections[title.strip()] = words, list(zip(lines[::2], lines[1::2], strict=True))
    return sections


def _table(columns: list[str], formats: list[str], rows: Iterable, values: dict[str, Any]) -> Table:
    """A table. A column {names} of several names stands for as many columns of one format; cells of text stay as they are."""
    flat = {k: " | ".join(map(str, v)) if isinstance(v, (list, tuple)) else v for k, v in values.items()}
    heads = [cell.format(**flat).split(" | ") for cell in columns]
    forms = [f for several, f in zip(heads, formats, strict=True) for _ in several]
    cells = [[_cell(v, f) for v, f in zip(row, forms, strict=True)] for row in rows]
    return Table([name for several in heads for name in several], cells)


def _cell(value: Any, form: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return format(value, form.strip("-"))


def anchors(study: str) -> dict[str, Any]:
    """Return the published numbers of anchors/STUDY.toml that a study sets beside ours."""
    return tomllib.loads((HERE / "anchors" / f"{study}.toml").read_text())


def text_interval(x: Sequence[float], digits: int = 1) -> str:
    """Return "mean [low, high]" of several seeds."""
    mean, low, high = over_seeds(x)
    return f"{mean:.{digits}f}" if np.isnan(low) else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def reproduce(
    name: str,
    logs: str | Path | None,
    out: str | Path,
    *,
    preset: str = "small",
    seeds: int = 3,
    threads: int = 2,
    device: str = "cpu",
    show: Callable[[int, int, str], None] | None = None,
    only: Sequence[str] = (),
) -> list[Section]:
    """Run a study on the logs of a folder; the sections of its report. `device`: where networks are trained. `show(part, parts,
    text)`: how far it is. `only`: the parts that are run, by name. Raises InputError."""
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    if logs is None and name not in GENERATED:
        raise InputError(f"the study {name} replays logs: --logs names the folder with the SWF files")
    if name in ONE_SEED and seeds != 1:
        raise InputError(f"the study {name} learns once; there is no use for {seeds} seeds")
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if only and name in WHOLE:
        raise InputError(
            f"the parts of the study {name} need each other: --part is for {', '.join(x for x in STUDIES if x not in WHOLE)}"
        )
    s = Study(name, out, logs, preset, seeds, threads, show, device, only)
    s.say(f"{s.kept} pieces are kept from an earlier run" if s.kept else "begins")
    sections = import_module(f"jobwise_experiments.{STUDIES[name]}").study(s)
    if name in NOT_SHORT or preset == "paper":
        return sections
    words, _ = sections_of("presets")[preset]
    return [Section("Trained for a short time", words), *sections]


def read_log(folder: str | Path | None, start: str) -> Workload:
    """The log in `folder` whose file name begins so. Raises InputError where there is none."""
    from jobwise.workloads.source import open_log

    files = files_of(folder, start)
    if not files:
        raise InputError(f"{folder}: there is no log {start}*; --logs names the folder with the SWF files")
    return open_log(str(files[0]))


def files_of(folder: str | Path | None, start: str) -> list[Path]:
    """Return the files of a folder whose names begin so, in order."""
    return sorted(p for p in Path(folder or ".").glob("*") if p.name.startswith(start))
