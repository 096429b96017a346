"""Settings of slurm.conf that would have done better: searched on a site's own jobs, judged on later ones.

The first 45 % of the jobs are searched on, they and the next 25 % choose, the last 30 % judge. Every candidate is a set
of lines that a site can really change. Many are tried on a replica, the better ones on more (successive halving), then moves
around the best. A candidate whose longest wait is above the bound pays for it in the search; one that breaks the bound in any
replica of the jobs that choose is not chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from jobwise import metrics
from jobwise.compare.fingerprint import public_hash
from jobwise.compare.windows import shake_for
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.parallel import Shared, current
from jobwise.policies.slurm import SlurmScheduler
from jobwise.simulate import simulate
from jobwise.slurm.judge.fidelity import Fidelity, of_present, trusted
from jobwise.slurm.judge.what_if import Change, against, replays
from jobwise.slurm.read import conf
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, shake

WEIGHTS = ("age", "fair_share", "size")  # what a priority is made of; those of partitions and QOS stay as they are
KEEPS = {"fairshare": "fair_share", "age": "age", "size": "size"}
SEARCHED = 0.45  # share of the jobs
FEWEST = int(100 / SEARCHED) + 1  # jobs
PRICE = 2.0  # of each e-fold of longest wait beyond the bound, in e-folds of slowdown
MARGIN = 0.9  # of the bound is aimed at: later months are not like these
FIRST, SECOND, MOVES, FINAL = 48, 12, 24, 4  # candidates of each stage
METRICS = ("slowdown", "wait")
BOUNDS = (1.0, 1.2, 1.5, 2.0)  # times the present longest wait, for which the best candidate is shown
REPLICAS = 3
LEAST = 0.02  # of a logarithm: what is less is no gain
DAY = 86_400.0
CHOICES = {  # values that are drawn; the present one is always among them
    "max_age": (DAY / 4, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY),
    "favor_small": (0, 1),
    "small_relative": (0, 1),
    "bf_interval": (30.0, 60.0, 120.0),
    "bf_window": (DAY, 2 * DAY, 4 * DAY, 7 * DAY),
    "bf_resolution": (60.0, 300.0, 600.0),
    "bf_max_test": (100.0, 500.0, 1000.0, 2000.0),
    "bf_max_user": (10.0, 50.0, np.inf),
    "depth": (100.0, 500.0, 1000.0),
}


class WithinBound(NamedTuple):
    """The best candidate within a bound on waits, on the jobs that choose: the change of its metric, the longest wait in times
    the present one (the most of all replicas), its lines of slurm.conf."""

    bound: float
    change: float
    longest: float
    lines: list[str]


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of tuning. `lines` of slurm.conf, none where nothing was better; `test`: the change on the last jobs, and
    `others`: what other schedulers would do there; `trials`: how many candidates were replayed; `fidelity`: the simulated
    present beside the record (None: no waits are recorded)."""

    lines: list[str]
    settings: np.ndarray
    validation: Change | None
    test: Change | None
    others: list[Change]
    trials: int
    bound: float
    metric: str = "wait"
    fidelity: Fidelity | None = None
    offers: Sequence[WithinBound] = ()

    @property
    def trusted(self) -> bool:
        """Does the simulation explain the record well enough to propose settings?"""
        return self.fidelity is not None and trusted(self.fidelity)

    @property
    def proposed(self) -> list[str]:
        """The lines for slurm.conf that a site may use: better on later jobs, by a simulation that explains the record."""
        return self.lines if self.gains and self.trusted else []

    @property
    def gains(self) -> bool:
        """Is it better on jobs that it was not chosen by, by its metric, in no other way worse, and is the bound kept there?"""
        return (
            self._better
            and self.test is not None
            and self.test.slowdown.low <= 0
            and float(self.test.longest.max()) <= self.bound
        )

    @property
    def _better(self) -> bool:
        t = self.test
        return t is not None and (t.wait.high if self.metric == "wait" else t.slowdown.high) < 0

    def sentence(self) -> str:
        """Return the result in sentences."""
        if self.test is None:
            within = f"and within {self.bound:g} times the present longest wait"
            best = next((x for x in self.offers if x.bound > self.bound), None)
            beyond = f" The best within {best.bound:g} times: mean {self.metric} {best.change:+.0%}." if best else ""
            beyond = beyond if self.offers else f" Within {max(BOUNDS):g} times none is better by {LEAST:.0%} either."
            return f"Of {self.trials} candidates none was better than the present settings {within}: change nothing.{beyond}"
        change_text = self.test.sentence()
        if self.gains and not self.trusted:
            why = "no waits are recorded" if self.fidelity is None else "it does not explain the record"
            return f"{change_text} Better in the simulation alone, and {why}: no lines are proposed."
        if self.gains:
            return f"{change_text} Better on later jobs, and within {self.bound:g} times the present longest wait."
        most, wait = float(self.test.longest.max()), self.test.wait if self.metric == "wait" else self.test.slowdown
        broken = "" if most <= self.bound else f" The bound of {self.bound:g} times is broken there: {most:.2f} in one replica."
        certain = "" if self._better else f" The change of the mean {self.metric} there, {wait.text()}, is not certain."
        return f"{change_text}{certain}{broken} No lines are proposed."


class Candidates:
    """Candidates that have been replayed, kept in a file: a run that was stopped goes on where it was."""

    def __init__(self, parts_: Sequence[Workload], folder: Path | None, bound: float, metric: str):
        self.parts, self.bound, self.metric = list(parts_), bound, metric
        self.file, self.known = (folder / "trials.jsonl") if folder else None, {}
        if self.file and self.file.exists():
            kept = self.file.read_bytes()
            if not kept.endswith(b"\n"):  # a kill has cut the last line
                kept = kept[: kept.rfind(b"\n") + 1]
                self.file.write_bytes(kept)
            for n, text in enumerate(kept.splitlines(), 1):
                try:
                    line = json.loads(text)
                    scores = tuple(float(line[k]) for k in ("slowdown", "wait", "longest"))
                    self.known[str(line["settings"]), int(line["part"])] = scores
                except (ValueError, KeyError, TypeError):
                    raise InputError(f"{self.file}:{n}: is damaged; delete this line, or begin again elsewhere") from None

    @property
    def later(self) -> range:
        """The parts that come after the searched ones."""
        return range(REPLICAS, len(self.parts))

    @property
    def candidates(self) -> int:
        """Return the number of replayed settings."""
        return len({key for key, _ in self.known})

    def of(self, settings: Sequence[np.ndarray], which: Sequence[int], step: Callable[[int], None]) -> np.ndarray:
        """[K, P, 3] log bounded slowdown, log mean wait, longest wait (s), of settings on parts."""
        wanted = [(x, p) for x in settings for p in which]
        todo = list(dict.fromkeys((_key(x), p) for x, p in wanted if (_key(x), p) not in self.known))
        by_key = {_key(x): x for x, _ in wanted}
        with current() as workers:
            parts = [workers.put(w) for w in self.parts]
            trials = [(parts[p], by_key[key]) for key, p in todo]
            for (key, p), scores in zip(todo, workers.each(_scores, trials, step), strict=True):
                self.known[key, p] = scores
                if self.file:
                    line = {"settings": key, "part": p, "slowdown": scores[0], "wait": scores[1], "longest": scores[2]}
                    with self.file.open("a") as out:
                        out.write(json.dumps(line) + "\n")
        return np.array([[self.known[_key(x), p] for p in which] for x in settings])

    def value(
        self, settings: Sequence[np.ndarray], present: np.ndarray, which: Sequence[int], step: Callable[..., None]
    ) -> np.ndarray:
        """[K], smaller is better: the metric against the present settings, what is above the bound costs."""
        base, scores = self.of([present], which, step)[0], self.of(settings, which, step)
        over = scores[..., 2] / np.maximum(base[:, 2], 1.0) / (MARGIN * self.bound)
        gain = (scores - base)[..., METRICS.index(self.metric)]
        return gain.mean(axis=1) + PRICE * np.log(np.maximum(over, 1.0)).max(axis=1)

    def offers(self, settings: Sequence[np.ndarray], present: np.ndarray, step: Callable[..., None]) -> list[WithinBound]:
        """Return the best of the settings within each of BOUNDS, where it is better than the present ones."""
        which = [*range(REPLICAS), *self.later]
        base, scores = self.of([present], which, step)[0], self.of(settings, which, step)
        gain = (scores - base)[..., METRICS.index(self.metric)].mean(axis=1)
        longest = (np.maximum(scores[..., 2], 1.0) / np.maximum(base[:, 2], 1.0)).max(axis=1)
        within: list[WithinBound] = []
        for bound in BOUNDS:
            able = np.flatnonzero((longest <= bound) & (gain < -LEAST))
            if len(able):
                k = able[gain[able].argmin()]
                lines = conf.lines(present, settings[k])
                within += [WithinBound(bound, float(np.expm1(gain[k])), float(longest[k]), lines)]
        return within

    def keeping(self, settings: Sequence[np.ndarray], present: np.ndarray, step: Callable[..., None]) -> list[np.ndarray]:
        """Return the settings whose longest wait is within the bound in every replica of the choosing jobs."""
        which = [*range(REPLICAS), *self.later]
        allowed = self.bound * np.maximum(self.of([present], which, step)[0][:, 2], 1.0)
        longest = self.of(settings, which, step)[..., 2] if settings else np.zeros((0, len(which)))
        return [x for x, most in zip(settings, longest, strict=True) if (most <= allowed).all()]


def _scores(trial: tuple[Shared, np.ndarray]) -> tuple[float, float, float]:
    """The scores of settings on a part: log bounded slowdown, log mean wait, longest wait (s)."""
    part, settings = trial
    w = part.get()
    site = replace(w.cluster.known_site, settings=settings)
    r = simulate(replace(w, cluster=replace(w.cluster, site=site)), cast(Any, SlurmScheduler()))
    wait, slow = metrics.wait(r), metrics.bounded_slowdown(r)
    edges = np.linspace(0, len(slow), 17).astype(int)[:-1]
    blocks = np.add.reduceat(slow, edges) / np.diff(np.append(edges, len(slow)))
    return (
        float(0.75 * np.log(blocks).mean() + 0.25 * np.log(slow.mean())),
        float(np.log(wait.mean() + 1.0)),
        float(wait.max()),
    )


def replayed(folder: str) -> int:
    """Return how many replays of candidates the run of this folder has kept."""
    file = Path(folder) / "trials.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def _key(settings: np.ndarray) -> str:
    return json.dumps([x if np.isfinite(x) else -1 for x in map(float, settings[0])])


def draw(present: np.ndarray, rng: np.random.Generator, keep: Sequence[str], moved: np.ndarray | None = None) -> np.ndarray:
    """Settings [1]: drawn at random, or, from `moved`, with a few of them changed."""
    drawn = (present if moved is None else moved).copy()
    drawn["basic"] = 0
    free = [w for w in WEIGHTS if w not in keep]
    whole = sum(float(present[w][0]) for w in WEIGHTS) or 10_000.0
    left = max(whole - sum(float(present[w][0]) for w in keep), 0.0) or whole
    if moved is None or rng.random() < 0.5:
        share = rng.dirichlet(np.full(len(free), 0.6)) if free else np.zeros(0)
        if moved is not None:
            old = np.array([float(moved[w][0]) for w in free])
            share = 0.7 * old / max(old.sum(), 1e-9) + 0.3 * share
        for w, x in zip(free, share, strict=True):
            drawn[w] = float(np.round(left * x))
    for key, values in CHOICES.items():
        if rng.random() < (0.5 if moved is None else 0.2):
            drawn[key] = values[rng.integers(len(values))]
    return drawn


def tune(
    w: Workload,
    *,
    max_wait: float = 1.2,
    metric: str = "wait",
    keep: Sequence[str] = (),
    folder: str | Path | None = None,
    resume: bool = False,
    others: Sequence[str] = (),
    scale: float = 1.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Tuned:
    """Search the settings of the site of `w`. `max_wait`: bound on the longest wait, times the present one; `keep`: weights of
    priority that stay (`fairshare`, `age`, `size`); `metric`: the mean `wait`, or `slowdown`; `scale`: times the usual number
    of candidates. Raises InputError."""
    if w.cluster.site is None:
        raise InputError(f"{w.name}: is no site; `jobwise slurm site` prints the commands that fill a folder")
    if wrong := [k for k in keep if k not in KEEPS]:
        raise InputError(f"--keep {wrong[0]!r}: known are {', '.join(KEEPS)}")
    if metric not in METRICS:
        raise InputError(f"metric {metric!r}: known are wait and slowdown")
    if not max_wait >= 1:
        raise InputError(f"a bound of {max_wait:g} times the present longest wait cannot be asked for; 1 or more is expected")
    train, validation, test = _parts(w)
    folder = _opened(
        w, folder, resume, {"max_wait": max_wait, "metric": metric, "keep": sorted(keep), "scale": scale, "seed": seed}
    )
    fit = of_present(w, progress)
    by = shake_for(w)
    shifted = [shake(train, by, [seed, k]) for k in range(REPLICAS)] + [shake(validation, by, [seed, 10 + k]) for k in range(2)]
    present, rng, count = w.cluster.known_site.settings, np.random.default_rng(seed), lambda n: max(int(round(n * scale)), 2)
    trials = Candidates(shifted, folder, max_wait, metric)
    kept = [KEEPS[k] for k in keep]
    if not (w.cluster.known_site.leaf >= 0).any() and "fair_share" not in kept:
        kept.append("fair_share")  # nobody has a share: what it would do is not known
    total = count(FIRST) + 1 + (count(SECOND) + count(MOVES)) * 2 + 4 * count(FINAL) + 6
    done = 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(min(done, total), total)

    def best(candidates: list[np.ndarray], which: Sequence[int], most: int) -> list[np.ndarray]:
        order = np.argsort(trials.value(candidates, present, which, step), kind="stable")
        return [candidates[i] for i in order[:most]]

    settings = [present, *(draw(present, rng, kept) for _ in range(count(FIRST)))]
    settings = best(settings, [0], count(SECOND))
    settings = best(settings, range(REPLICAS), count(FINAL))
    moves = [draw(present, rng, kept, moved=settings[i % len(settings)]) for i in range(count(MOVES))]
    tried = settings + moves
    settings = best(tried, range(REPLICAS), count(FINAL))
    loose = copy(trials)  # the same replays, with another price of waits
    loose.bound = max(BOUNDS)
    offers = trials.offers(
        [*settings, *(tried[i] for i in np.argsort(loose.value(tried, present, range(REPLICAS), step))[: count(FINAL)])],
        present,
        step,
    )
    every = [present, *trials.keeping(settings, present, step)]
    judged = trials.value(every, present, trials.later, step)
    both = (judged + trials.value(every, present, range(REPLICAS), step)) / 2
    i = int(np.argmin(both))
    lines = conf.lines(present, every[i]) if judged[i] < 0 and both[i] < -LEAST else []
    if not lines:
        beside_ = _beside(test, others, by, seed)
        return Tuned([], present, None, None, beside_, trials.candidates, max_wait, metric, fit, offers)

    def change(part: Workload) -> Change:
        site = replace(part.cluster.known_site, settings=every[i])
        after = replace(part, cluster=replace(part.cluster, site=site))
        return against("tuned", *(replays(x, "slurm", by, seed=seed + 1) for x in (part, after)))

    effects = change(validation), change(test)
    beside_ = _beside(test, others, by, seed, effects[1])
    return Tuned(lines, every[i], *effects, beside_, trials.candidates, max_wait, metric, fit, offers)


def _parts(w: Workload) -> tuple[Workload, Workload, Workload]:
    """(searched on, chosen by, judged on), in time. Raises InputError for too short a log."""
    a, b = int(SEARCHED * len(w)), int(SEEN * len(w))
    if len(w) < FEWEST:
        raise InputError(f"{w.name}: {len(w)} jobs are too few to tune on; at least {FEWEST} are needed")
    return w.take(slice(0, a)), w.take(slice(a, b)), w.take(slice(b, None))


def _beside(test: Workload, others: Sequence[str], by: float, seed: int, known: Change | None = None) -> list[Change]:
    """Return the effects of other schedulers on the last jobs."""
    if not others:
        return []
    present = known.present if known else replays(test, "slurm", by, seed=seed + 1)
    return [against(p, present, replays(test, p, by, seed=seed + 1)) for p in others]


def _opened(w: Workload, folder: str | Path | None, resume: bool, run_settings: dict) -> Path | None:
    if folder is None:
        return None
    folder, about = Path(folder), run_settings | {"log": w.name, "sha256": public_hash(w)}
    about["site"] = [float(x) if np.isfinite(x) else -1 for x in w.cluster.known_site.settings[0]]
    file = folder / "tune.json"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the run")
    if file.exists():
        if not resume:
            raise InputError(f"{folder}: holds a run already; --resume goes on with it, or name another folder")
        try:
            before = json.loads(file.read_text())
        except ValueError as error:
            raise InputError(f"{file}: is damaged: {error}") from None
        if not isinstance(before, dict):
            raise InputError(f"{file}: is damaged; name another folder")
        if different := [k for k in about if before.get(k) != about[k]]:
            raise InputError(f"{folder}: was begun with another {different[0]}; name another folder")
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: holds other files; name a new folder for the run")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(about, indent=1))
    return folder
