"""A trained policy that goes on learning: its system is trained anew on the jobs that have ended, and the new policy ranks once
it has won on the last weeks.

    STATE/learnt/model.json        generations, who ranks, what every round showed
    STATE/learnt/g5.safetensors    the last two confirmed generations
    STATE/learnt/base.safetensors  the policy that learning began with, which ranks where no generation has won

A round trains on the seven tenths of the jobs that came before the last weeks (of fewer jobs: before the last three tenths),
and replays windows of these weeks, which training has not seen, under the new policy, under each generation that is kept, and
under the first. `jobwise.learn.generations` says what is confirmed, who ranks, and when to go back, as it does for models of
MARS. Files are written whole, `model.json` last.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from jobwise.compare import windows
from jobwise.compare.windows import begins, shifted, size_for
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn.generations import Generations, Kept
from jobwise.learn.run_folder import explained, score
from jobwise.policies.names import load, resolve, resolve_trained, with_same_options
from jobwise.simulate import simulate_many
from jobwise.systems import configure, systems
from jobwise.systems.model import locked
from jobwise.workload import Workload

FORMAT = "jobwise learnt 1"
DAY, WEEKS = 86_400.0, 3.0  # s; the last ones, on which a round is judged
UNSEEN = 0.3  # share of a log that no training looks at, its last part
MOST, SHAKES = 24, 2  # windows that are judged, and time-shifted replicas of each
LEAST = 4  # windows
BASE = "base"
ROUNDS = 100  # that model.json remembers


class Round(BaseModel):
    """The outcome of a round. By name (the candidate "new", generations "g3", `rule`: the policy that learning began with):
    `scores` as `jobwise.learn.run_folder.score`, smaller is better; `longest` the longest wait (s)."""

    time: float  # s since 1970
    learnt: int  # jobs
    judged: int
    windows: int
    rule: str
    scores: dict[str, float]
    longest: dict[str, float]
    gain: float  # of the candidate, against the better of the last generation and the rule
    confirmed: int  # the number that it got; -1: it was not confirmed
    serves: int  # the generation that ranks from now on; -1: the policy that learning began with does


class Learnt(Kept):
    """The content of the file `model.json` of a store."""

    format: str = FORMAT
    rounds: list[Round] = []

    @staticmethod
    def of(folder: Path) -> Learnt:
        """Read that of a folder, which may not be there yet. Raises InputError."""
        file = folder / "model.json"
        if not file.is_file():
            return Learnt()
        try:
            learnt = Learnt.model_validate_json(file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: cannot be read: {error}") from None
        except ValidationError as error:
            raise explained(error, Learnt, str(file)) from None
        if learnt.format != FORMAT:
            raise InputError(f"{file}: its format is {learnt.format!r}; this version reads {FORMAT!r}")
        return learnt

    def save(self, folder: Path) -> None:
        """Write it; who ranks is a generation, or the policy that learning began with."""
        self.schedules = f"{BASE if self.serves < 0 else f'g{self.serves}'}.safetensors"
        write_whole(folder / "model.json", self.model_dump_json(indent=1))
        self.tidy(folder, BASE)


def check(policy: str) -> None:
    """Raises InputError for a policy that cannot go on learning: one that was not trained on a log."""
    example = "a policy that `jobwise train` made from a log is expected, such as runs/mine"
    try:
        trained, _ = resolve_trained(policy)
    except InputError as error:
        raise InputError(f"policy {policy!r} learns nothing; {example} ({error})") from None
    system = trained.about.get("system", "")
    row = systems().get(system)
    if row is None or not row.on_log:
        raise InputError(f"policy {policy!r}: the system {system!r} learns from no log; {example}")


def serving(folder: Path, policy: str) -> Any:
    """The generation that ranks in place of `policy`, with its options; None: `policy` does. Raises InputError."""
    learnt = Learnt.of(folder)
    return None if learnt.serves < 0 else with_same_options(_generation(folder, f"g{learnt.serves}"), policy)


def retrain(
    folder: Path,
    w: Workload,
    policy: str,
    *,
    weeks: float = WEEKS,
    progress: Callable[[int, int], None] | None = None,
) -> Round:
    """Train the system of `policy`, a run folder or a policy file, on jobs of a pool that have ended, judge, and keep: a round.
    Raises InputError for too few jobs."""
    check(policy)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        learnt = Learnt.of(folder)
        log, places, judged = _parts(w, weeks)
        generations = learnt.open(lambda name: _generation(folder, name))
        total, memo = (len(generations.kept) + 2) * len(places), dict[str, tuple[np.ndarray, float]]()
        say = progress or (lambda done, of: None)  # half of it is training, the rest are replays

        def trained(seed: int, line: dict) -> None:
            say(int(total * line.get("part", 0.0)), 2 * total)

        base = resolve(policy)
        base.check(w.cluster)  # networks of some systems are made for one machine
        new = _trained(folder, log, policy, len(learnt.rounds), trained)
        names = {id(base): policy, id(new): "new"} | {id(g): f"g{n}" for n, g in generations.kept}

        def measured(p: Any) -> np.ndarray:
            """[W] mean bounded slowdowns; the longest wait beside them."""
            name = names[id(p)]
            if name not in memo:
                one = p if p is base else with_same_options(p, policy)
                x = [windows.numbers(r) for r in simulate_many(places, one)]
                slow = np.array([n["bounded_slowdown"] for n in x]).reshape(-1, SHAKES).mean(axis=1)
                memo[name] = slow, max(n["max_wait"] for n in x)
                say(total + len(memo) * len(places), 2 * total)
            return memo[name][0]

        gain, _ = generations.judge(new, measured, measured(base))
        scores, longest = ({n: f(x) for n, x in memo.items()} for f in (lambda x: score(x[0]), lambda x: x[1]))
        done = Round(
            time=time.time(), learnt=len(log) - judged, judged=judged, windows=len(places) // SHAKES, rule=policy,
            scores=scores, longest=longest, gain=gain, confirmed=generations.number if gain >= 0 else -1,
            serves=generations.serves,
        )  # fmt: skip
        learnt.rounds = [*learnt.rounds, done][-ROUNDS:]
        write_whole(folder / f"{BASE}.safetensors", _file(resolve_trained(policy)[1]).read_bytes())
        learnt.keep(generations, folder, lambda _, file: write_whole(file, _file(folder / RUN).read_bytes()))
        learnt.save(folder)
        shutil.rmtree(folder / RUN)
    return done


def roll_back(folder: Path) -> int:
    """Let the generation before the present one rank; without one, the policy that learning began with. Return its number;
    -1: the first policy. Raises InputError where the first policy ranks already."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        learnt = Learnt.of(folder)
        if learnt.serves < 0:
            raise InputError(f"{folder}: no generation ranks; there is nothing to go back from")
        g: Generations = learnt.open(lambda name: _generation(folder, name))
        g.kept = [x for x in g.kept if x[0] < g.serves]
        g.serves, g.rollbacks = g.kept[-1][0] if g.kept else -1, g.rollbacks + 1
        learnt.keep(g, folder, lambda generation, file: None)  # none is new
        learnt.save(folder)
    return learnt.serves


RUN = "run"  # the folder of a round's training, in the store


def _parts(w: Workload, weeks: float) -> tuple[Workload, list[Workload], int]:
    """Return (the jobs of a round, the last three tenths of them unseen in training; `SHAKES` time-shifted replicas of each
    window of the unseen jobs; the number of unseen jobs). Raises InputError for too few."""
    late = len(w) - int(np.searchsorted(w.jobs["submit"], w.jobs["submit"][-1] - weeks * 7 * DAY))
    log = w.take(slice(max(len(w) - round(late / UNSEEN), 0), None))
    first = len(log) - int(UNSEEN * len(log))
    size = size_for(len(log) - first)
    rows = begins(first, len(log), size, MOST)
    if len(rows) < LEAST:
        raise InputError(f"{w.name}: {len(w):,} jobs have ended, too few to train on and to judge by {LEAST} windows")
    return log, [x for row in rows.tolist() for x in shifted(log, row, size, SHAKES, windows.SHAKE_S, 0)], len(log) - first


def _trained(folder: Path, log: Workload, policy: str, round_: int, report: Callable[[int, dict], None]) -> Any:
    """A new policy of the system of `policy`, trained as that was, in the folder RUN. Raises InputError."""
    shutil.rmtree(folder / RUN, ignore_errors=True)  # of a round that was killed
    trained, place = resolve_trained(policy)
    about, run = trained.about, Path(place) / "run.json"
    config = configure(about["system"], log, about.get("preset") or "small")
    if run.is_file():
        try:
            config = config.changed(**json.loads(run.read_text())["config"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{run}: is damaged: {type(error).__name__}: {error}") from None
    return config.changed(seed=config.seed + round_ + 1).train(log, folder / RUN, report=report)[0]


def _generation(folder: Path, name: str) -> Any:
    """The policy of a generation. Raises InputError for a file that cannot be read, or of what has left."""
    try:
        return load(folder / f"{name}.safetensors")
    except InputError as error:
        raise InputError(f"{error}; remove {folder} to begin anew") from None


def _file(place: str | Path) -> Path:
    """The policy file of a run folder, or the file itself."""
    return Path(place) / "policy.safetensors" if Path(place).is_dir() else Path(place)
