"""A policy that goes on learning: new trees from the jobs that have ended, which rank once they have won on the last weeks.

    STATE/learnt/model.json       generations, who ranks, what every round showed
    STATE/learnt/g5.safetensors   the last two confirmed generations: orders with trees

A round learns trees on all jobs that ended before the last weeks, and replays windows of these weeks under `jobwise` with the
new trees, with those of each generation that is kept, and under the rule. `jobwise.learn.generations` says what is confirmed,
who ranks, and when to go back, as it does for models of MARS. Files are written whole, `model.json` last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from jobwise.cluster import pool
from jobwise.compare import windows
from jobwise.compare.windows import begins, replicas, size_for
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.forecast import forests
from jobwise.learn.generations import Generations, Kept
from jobwise.learn.run_folder import explained, score
from jobwise.policies import loglinear, recommended
from jobwise.policies.loglinear import Index
from jobwise.policies.names import is_built_in, load, resolve
from jobwise.simulate import simulate_many
from jobwise.slurm.views import takes
from jobwise.systems.forecast import trees_of
from jobwise.systems.model import locked
from jobwise.workload import Workload

FORMAT = "jobwise learnt 1"
DAY, WEEKS = 86_400.0, 3.0  # s; the last ones, on which a round is judged
MOST, SHAKES = 24, 2  # windows that are judged, and time-shifted replicas of each
FOLLOWED = 60_000  # jobs that ended last, whose history is followed
LEAST = 4  # windows
ROUNDS = 100  # that model.json remembers


class Round(BaseModel):
    """The outcome of a round. By name (the candidate "new", generations "g3", the rule): `scores` as
    `jobwise.learn.run_folder.score`, smaller is better; `longest` the longest wait (s)."""

    time: float  # s since 1970
    learnt: int  # jobs
    judged: int
    windows: int
    rule: str
    scores: dict[str, float]
    longest: dict[str, float]
    gain: float  # of the candidate, against the better of the last generation and the rule
    confirmed: int  # the number that it got; -1: it was not confirmed
    serves: int  # the generation that ranks from now on; -1: the rule does


class Learnt(Kept):
    """What the file `model.json` of a store says."""

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

    def save(self, folder: Path, rule: str) -> None:
        """Write it; who ranks is a generation, or the rule."""
        self.schedules = f"jobwise:g{self.serves}.safetensors" if self.serves >= 0 else rule
        write_whole(folder / "model.json", self.model_dump_json(indent=1))
        self.tidy(folder)


def check_rule(rule: str) -> None:
    """Raises InputError for a policy that cannot be the rule, which has to be one of ours, for pools."""
    if not is_built_in(rule) or not takes(resolve(rule), pool(2)):
        raise InputError(f"policy {rule!r}: the rule is a built-in one for pools, such as jobwise or saf+easy")


def ranking(order: Index, label: str) -> Any:
    """`jobwise` with the trees of an order."""
    return recommended.recommended("jobwise", order, resolve("general").order, label)


def serving(folder: Path) -> Any:
    """The policy of the generation that ranks; None: the rule does. Raises InputError."""
    learnt = Learnt.of(folder)
    return None if learnt.serves < 0 else ranking(_read(folder)(f"g{learnt.serves}"), f"jobwise:g{learnt.serves}")


def retrain(
    folder: Path,
    w: Workload,
    rule: str,
    *,
    weeks: float = WEEKS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Round:
    """Learn from the jobs of a pool, judge, and keep: a round. `rule`: a policy, which ranks where no generation has won.
    Raises InputError for too few jobs."""
    forests.check_lightgbm()
    check_rule(rule)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        learnt = Learnt.of(folder)
        first = int(np.searchsorted(w.jobs["submit"], w.jobs["submit"][-1] - weeks * 7 * DAY))
        size = size_for(len(w) - first)
        rows = begins(first, len(w), size, MOST)
        past = w.by_end[w.by_end["end"] < w.jobs["submit"][first]][-FOLLOWED:]
        if len(rows) < LEAST or len(past) < forests.LEAST:
            raise InputError(
                f"{w.name}: {len(past):,} jobs ended before the last {weeks:g} weeks and {len(w) - first:,} came since; "
                f"{forests.LEAST} and {LEAST * size:,} are needed"
            )
        places = [x for row in rows.tolist() for x in replicas(w, row, size, SHAKES, windows.SHAKE_S, seed)]
        generations = learnt.open(_read(folder))
        memo: dict[str, tuple[np.ndarray, float]] = {}  # by name: slowdowns [W], the longest wait
        new = trees_of(past, w.cluster.processors, "new", seed=seed)
        total = (len(generations.kept) + 2) * len(places)

        def measured(policy: Any, name: str) -> np.ndarray:
            """[W] mean bounded slowdowns; the longest wait beside them."""
            if name not in memo:
                before = len(memo) * len(places)
                step = (lambda done, _: progress(before + done, total)) if progress else None
                x = [windows.numbers(r) for r in simulate_many(places, policy, progress=step)]
                slow = np.array([n["bounded_slowdown"] for n in x]).reshape(len(rows), SHAKES).mean(axis=1)
                memo[name] = slow, max(n["max_wait"] for n in x)
            return memo[name][0]

        names = {id(g): f"g{n}" for n, g in generations.kept} | {id(new): "new"}
        by_rule = measured(resolve(rule), rule)
        gain, _ = generations.judge(new, lambda g: measured(ranking(g, names[id(g)]), names[id(g)]), by_rule)
        confirmed = generations.number if gain >= 0 else -1
        scores, longest = ({n: f(x) for n, x in memo.items()} for f in (lambda x: score(x[0]), lambda x: x[1]))
        done = Round(
            time=time.time(), learnt=len(past), judged=len(w) - first, windows=len(rows), rule=rule, scores=scores,
            longest=longest, gain=gain, confirmed=confirmed, serves=generations.serves,
        )  # fmt: skip
        learnt.rounds = [*learnt.rounds, done][-ROUNDS:]
        learnt.keep(generations, folder, loglinear.save)
        learnt.save(folder, rule)
    return done


def roll_back(folder: Path, rule: str) -> int:
    """Let the generation before the one that ranks rank; the rule, where there is none. Returns its number; -1: the rule.
    Raises InputError where the rule ranks already."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        learnt = Learnt.of(folder)
        if learnt.serves < 0:
            raise InputError(f"{folder}: no generation ranks; there is nothing to go back from")
        g: Generations = learnt.open(_read(folder))
        g.kept = [x for x in g.kept if x[0] < g.serves]
        g.serves, g.rollbacks = g.kept[-1][0] if g.kept else -1, g.rollbacks + 1
        learnt.keep(g, folder, loglinear.save)
        learnt.save(folder, rule)
    return learnt.serves


def _read(folder: Path) -> Callable[[str], Index]:
    """A function that reads the order of a generation. Raises InputError for a file of something else."""

    def read(name: str) -> Index:
        order: Any = getattr(load(file := folder / f"{name}.safetensors"), "order", None)
        if getattr(order, "forest", None) is None:
            raise InputError(f"{file}: is no order with trees")
        return order

    return read
