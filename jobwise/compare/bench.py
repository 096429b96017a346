"""The benchmark: fixed logs, their later months, the same jobs for all; whoever schedules them is an entry.

An entry sees the earlier months with their run times, and of the later ones what a scheduler may know. That it looks at no
more is tested: run times that nobody could know yet are changed, and no start before may move.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from jobwise import __version__
from jobwise.compare import windows
from jobwise.compare.comparison import FEW, IDLE, verdict_of
from jobwise.compare.fingerprint import flattered
from jobwise.compare.intervals import Effect, claims, continuous, pooled
from jobwise.compare.outside import sums
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.policies.scheduler import Scheduler
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.later import later_months, with_other_runs
from jobwise.workloads.swf import read_swf, write_swf
from jobwise.workloads.transform import shake

LOGS = ("sdsc-sp2", "sdsc-blue", "hpc2n", "lanl-cm5")  # of the catalogue
ENTRIES: tuple[str, ...] = ("fcfs+easy", "fcfs", "sjf+easy", "saf+easy", "wfp3+easy", "f1+easy", "fcfs+conservative")
ENTRIES += ("saf+easy+guard24h", "jobwise", "zoo:sdsc-sp2", "zoo:alcf-theta", "zoo:lanl-cm5")
SHARE = 0.7  # of the jobs: the earlier months
LEAST, JOBS, REPLICAS = 12, 10_000, 5  # of the later months; of their submits, moved in time
OTHERS = (0.0, None, 0.0, 1.0, 0.0)  # other run times, on each replica: as short as may be, drawn, the request
NUMBERS = ("bounded_slowdown", "wait", "max_wait", "over_a_day", "utilisation", "makespan")


class Entrant(Protocol):
    """Whoever schedules: a policy of this simulator, or a program."""

    @property
    def name(self) -> str:
        """Return the name that pages use."""
        ...

    @property
    def key(self) -> str:
        """What is judged, to the letter: results of another key are not its own."""
        ...

    @property
    def source(self) -> str:
        """Where it comes from, as its author says; "": nothing is said."""
        ...

    def record(self, w: Workload) -> Record:
        """Schedule the jobs of a log. Raises InputError."""
        ...

    def flattered(self, w: Workload) -> str:
        """Return what must be said of one that was trained on these jobs; "" where it was not, or that is not known."""
        ...


@dataclass(frozen=True)
class Policied:
    """A policy of this simulator, as it was spelled: a rule, a policy file, a function of the user's."""

    policy: Scheduler
    spelled: str
    source: str = ""

    @property
    def name(self) -> str:
        """Its name, for a user's function with its file."""
        return Path(self.spelled).name if ".py:" in self.spelled else self.policy.name

    @cached_property
    def key(self) -> str:
        """Its spelling, and sums of this program and of the user's files."""
        paths = [Path(part.split(".py:")[0] + ".py" if ".py:" in part else part) for part in self.spelled.split("+")]
        own = sums([p / "policy.safetensors" if p.is_dir() else p for p in paths])
        return " ".join([self.spelled, __version__, program(), own])

    def record(self, w: Workload) -> Record:
        """Simulate the jobs under it."""
        return simulate(w, self.policy)

    def flattered(self, w: Workload) -> str:
        """Return what must be said of a policy that was trained on these jobs."""
        return flattered(w, self.policy, self.name)


@cache
def program() -> str:
    """Return a sum of this program's files."""
    return sums(p for p in Path(__file__).parent.parent.rglob("*") if "__pycache__" not in p.parts and p.is_file())


class LaterMonths(NamedTuple):
    """The later months of a log: [R] replicas as workloads and as files, the blocks of time that they are judged
    in; `sums` of the files."""

    name: str
    logs: list[Workload]
    files: list[Path]
    blocks: int
    source: str
    sums: list[str]


class Performance(NamedTuple):
    """What an entry did on a task: NUMBERS and `awrt` (s) and `hours` (processor-h up to the last end), means over replicas;
    `slow` [R, B] mean bounded slowdowns of blocks of time; `moved`: starts that followed run times that nobody could know, of
    those `tried`; `flattered`: trained on these jobs; `error`: why there is nothing."""

    numbers: dict[str, float]
    slow: np.ndarray
    moved: int = 0
    tried: int = 0
    flattered: str = ""
    error: str = ""


def task(name: str, w: Workload, folder: Path, jobs: int = JOBS, seed: int = 0, source: str = "") -> LaterMonths:
    """Write the later months of a log into a folder, as all entries get them, and the earlier ones to learn from. Raises
    InputError for a log that is no pool's, or too short."""
    if not w.cluster.is_pool or (w.jobs["unmet"] > 0).any():
        raise InputError(f"{name}: the benchmark takes logs of one pool of processors, of jobs that wait for no others")
    earlier, later = later_months(w, SHARE, jobs)
    if len(later) < LEAST:
        raise InputError(f"{name}: {len(later)} later jobs are too few")
    by = windows.shake_for(later)
    folder.mkdir(parents=True, exist_ok=True)
    write_swf(earlier, folder / "earlier.swf.gz")
    logs, files = [], []
    for k in range(REPLICAS):
        file = folder / f"later{k}.swf"
        write_swf(shake(later, by, [seed, k]), file)
        files.append(file)
        logs.append(replace(read_swf(file), name=name, past=later.past))
    source = f"{source}; rows left out: {w.left_out}; {', '.join(f'{n:,} jobs {x}' for x, n in later.notes.items())}"
    blocks = max(len(windows.begins(0, len(later), windows.size_for(len(later)))) // 2, 1)
    return LaterMonths(name, logs, files, blocks, source, [hashlib.sha256(f.read_bytes()).hexdigest() for f in files])


def score(
    entry: Entrant, t: LaterMonths, progress: Callable[[int], None] = lambda done: None, fresh: bool = False
) -> Performance:
    """Let an entry schedule a task; what goes wrong is the score's `error`. `fresh`: also where there is a score."""
    kept = t.files[0].with_name(f"{_label(entry)}.json")
    key = {"entry": entry.key, "log": t.sums, "others": list(OTHERS)}
    if not fresh and kept.is_file() and (known := _read(kept)) and known.get("key") == key:
        progress(len(t.logs) + 1)
        return Performance(**{k: known[k] for k in ("numbers", "moved", "tried", "flattered")}, slow=np.array(known["slow"]))
    records = list[Record]()
    try:
        for w in t.logs:
            records.append(entry.record(w))
            progress(1)
        moved, tried = peeks(entry, records)
        progress(1)
    except InputError as error:
        progress(len(t.logs) + 1 - len(records))
        return Performance({}, np.zeros((0, 0)), error=str(error))
    numbers = [_numbers(r) for r in records]
    means = {k: float(np.mean([x[k] for x in numbers])) for k in numbers[0]}
    slow = np.array([windows.in_time(r, t.blocks) for r in records])
    out = Performance(means, slow, moved, tried, entry.flattered(t.logs[0]))
    data = {"key": key, "entry": entry.name, **out._asdict(), "slow": out.slow.tolist()}
    write_whole(kept, json.dumps(data, indent=1) + "\n")
    return out


def _numbers(r: Record) -> dict[str, float]:
    s, hours = r.summary(), float(np.nanmax(r.jobs["end"])) * r.cluster.processors / 3600.0
    return {k: s[k] for k in NUMBERS} | {"awrt": s["area_weighted_response"], "hours": hours}


def peeks(entry: Entrant, records: Sequence[Record]) -> tuple[int, int]:
    """Return (how many starts of an entry follow run times that nobody could know, how many were tried), of its records of
    replicas. Of each, behind the start with most rivals in a part of the log, another part each time, the jobs that have not
    ended get other run times, and no start before may move. A start is tried where it has a rival among these."""
    moved = tried = 0
    for k, (r, share) in enumerate(zip(records, OTHERS, strict=False)):
        jobs, cut = r.jobs, contested(r.jobs, len(OTHERS))[k]
        start = entry.record(with_other_runs(r.workload, jobs["start"], cut, share)).jobs["start"]
        early = (jobs["start"] < cut) | (start < cut)
        moved += int((early & (np.abs(start - jobs["start"]) > 0.5)).sum())
        tried += int((rivals(jobs, jobs[jobs["end"] > cut])[jobs["start"] < cut] > 0).sum())
    return moved, tried


def contested(jobs: np.ndarray, count: int) -> list[float]:
    """Return the moments (s) just behind the start with most rivals among each of `count` parts of the starts."""
    order, against = np.argsort(jobs["start"], kind="stable"), rivals(jobs, jobs)
    return [float(jobs["start"][part[np.argmax(against[part])]]) + 1.0 for part in np.array_split(order, count) if len(part)]


def rivals(jobs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """[J] how many of `others` went on waiting when a job started that were no larger: each might have started in its place."""
    submit, start, size = others["submit"], others["start"], others["request"][:, 0]
    each = zip(jobs["start"].tolist(), jobs["request"][:, 0].tolist(), strict=True)
    return np.array([int(((submit <= t) & (start > t) & (size <= n)).sum()) for t, n in each])


def _label(entry: Entrant) -> str:
    """Return a name for a file."""
    plain = "".join(c if c.isalnum() or c in "+-." else "-" for c in entry.name)[:60]
    return f"{plain}-{hashlib.sha256(entry.key.encode()).hexdigest()[:8]}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # it is made anew


@dataclass(frozen=True)
class Standings:
    """The scores [E, T] of entries on tasks; the first entry is the reference, the first `fixed` are always there."""

    entries: Sequence[Entrant]
    tasks: Sequence[LaterMonths]
    scores: Sequence[Sequence[Performance]]
    fixed: int = len(ENTRIES)

    def change(self, e: int, t: int) -> Effect:
        """Return the change of bounded slowdown of entry e on task t against the reference."""
        return continuous(self.scores[0][t].slow, self.scores[e][t].slow)

    @cached_property
    def verdicts(self) -> list[list[str]]:
        """[T][E] verdicts on each task; "" where there is none. Those on the first `fixed` entries are adjusted for these, that
        on another one for these and itself: who enters takes nobody's verdict away."""
        return [self._verdicts(t) for t in range(len(self.tasks))]

    def _verdicts(self, t: int) -> list[str]:
        """[E] the verdicts on task t."""
        done = [e for e in range(1, len(self.entries)) if not self.scores[e][t].error]
        effects = {e: self.change(e, t) for e in done}
        fixed = [e for e in done if e < self.fixed]
        sure = dict(zip(fixed, claims([effects[e] for e in fixed]), strict=True))
        sure |= {e: claims([*(effects[k] for k in fixed), effects[e]])[-1] for e in done if e >= self.fixed}
        slow = [x[t].numbers["bounded_slowdown"] for x in self.scores[: self.fixed] if not x[t].error]
        queues = max(slow, default=0.0) >= IDLE
        words = {e: verdict_of(effects[e], sure[e])[0] if queues else FEW for e in done}
        return ["reference", *(words.get(e, "") for e in range(1, len(self.entries)))]

    def times(self, e: int, t: int) -> float:
        """Return the longest wait as a multiple of the reference's."""
        return max(self.scores[e][t].numbers["max_wait"], 1.0) / max(self.scores[0][t].numbers["max_wait"], 1.0)

    def ran(self, e: int) -> list[int]:
        """Return the tasks that an entry has a score on."""
        return [t for t in range(len(self.tasks)) if not self.scores[e][t].error]

    def overall(self, e: int) -> Effect:
        """Return the change over all logs that an entry has a score on, by random effects; of one log, that on it."""
        each = [self.change(e, t) for t in self.ran(e)]
        return each[0] if len(each) == 1 else pooled(each)

    def ratios(self, e: int) -> np.ndarray:
        """[R, T] mean bounded slowdown of each replica over the reference's, on the logs that an entry has a score on."""
        each = [self.scores[e][t].slow.mean(axis=1) / self.scores[0][t].slow.mean(axis=1) for t in self.ran(e)]
        return np.stack(each, axis=1)

    def moved(self, e: int) -> int:
        """Return how many starts of an entry followed what nobody could know."""
        return sum(self.scores[e][t].moved for t in self.ran(e))

    def tried(self, e: int) -> int:
        """Return on how many starts of an entry that was tried."""
        return sum(self.scores[e][t].tried for t in self.ran(e))

    def ranked(self) -> list[int]:
        """Return the entries that ran on every log, looked ahead nowhere and learnt from none of these jobs, the best first;
        then the others."""
        every = range(len(self.entries))

        def place(e: int) -> tuple[bool, float]:
            ran = self.ran(e)
            return not self.fair(e) or len(ran) < len(self.tasks), self.overall(e).change if ran else np.inf

        return sorted(every, key=place)

    def fair(self, e: int) -> bool:
        """Return whether an entry knew nothing that it may not know."""
        return not self.moved(e) and not any(self.scores[e][t].flattered for t in self.ran(e))
