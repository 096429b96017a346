"""Does a learned policy use the state that it is shown? Counted, exchanged, and beside the best policy that does not look.

A policy plays unseen jobs, and its states and decisions are counted. Then it plays the same jobs while it is shown the states
of other moments, whole or one group of inputs at a time (`worlds.encoder.Groups`). *Constant twins* play them, too: one slot,
one table of scores, one order by a field of the jobs; the best one is known in hindsight, so that it is hard to be ahead of.
All differences are paired by jobset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from jobwise.compare import windows
from jobwise.compare.intervals import Effect
from jobwise.errors import InputError, Unfinished
from jobwise.extensions import imported
from jobwise.learn.judged import change
from jobwise.policies.names import resolve
from jobwise.policies.networks import Constant, Forward
from jobwise.policies.neural import Lens, NeuralPolicy
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TEST
from jobwise.workloads.transform import unseen
from jobwise.worlds.spec import worlds

USES, HARDLY, NOT = "uses the state", "hardly", "not at all"
WINDOW_JOBS, WINDOWS = 256, 64  # jobs of a window; windows at most
JOBSETS = 40
KEPT, STATES = 2000, 200  # states that are kept for exchange; fewer different ones are too few to say "not at all"
ALIKE = 0.05  # a change of the score that is nothing, where it is smaller for sure
NEAR = 20  # states that are exchanged have as many waiting jobs; of the nearest so many, where fewer have
EXPLAINED = (
    "States of other moments: the network sees what other moments of the same jobs looked like, with as many jobs that wait. "
    "Constant twins answer the same whatever they see; the best one of these jobs counts. Uses the state: states of other "
    "moments cost it, and it is ahead of that twin, both for sure (95 %). Not at all: they "
    "change its score by less than 5 %, for sure, and it is not ahead. Hardly: all else."
)
SLOTS = 8  # of a network's favourite slots, those that are tried as twins


class _Note(NamedTuple):
    """A state in which there was a choice. `valid`: how many actions are; `scores`: of the network, -inf where an action is not
    valid; `decision`: the best of them, of each part."""

    state: np.ndarray
    valid: int
    scores: np.ndarray
    decision: np.ndarray


class _Record(Lens):
    """Takes notes of a sample of KEPT states in which there was a choice."""

    def __init__(self, policy: NeuralPolicy, seed: int):
        self.policy, self.rng, self.choices = policy, np.random.default_rng([seed, 1]), 0
        self.notes = list[_Note]()
        self.encoder: Any = None

    def show(self, world: Any, encoder: Any, out: np.ndarray, shown: np.ndarray) -> None:
        """Show the world as it is."""
        shown[:], self.encoder = out, encoder

    def chose(self, world: Any, shown: np.ndarray, actions: np.ndarray) -> None:
        """Note the states of this round."""
        allowed = self.policy.allowed(world)
        counts = _counts(allowed)
        which = np.flatnonzero(world.asked & (counts > 1))
        if not len(which):
            return
        every = np.where(allowed[which], self.policy.ranked(shown[which], counts[which], actions[which]), -np.inf)
        for scores, e in zip(every, which.tolist(), strict=True):
            self.choices += 1
            at = len(self.notes) if len(self.notes) < KEPT else int(self.rng.integers(self.choices))
            if at < KEPT:
                self.notes[at : at + 1] = [_Note(shown[e].copy(), int(counts[e]), scores, scores.argmax(axis=-1))]


def _counts(allowed: np.ndarray) -> np.ndarray:
    """[E] how many actions are valid, of all parts."""
    return allowed.reshape(len(allowed), -1).sum(axis=1)


class _Exchange(Lens):
    """Shows states of other moments, with as many waiting jobs: whole, or one group of inputs of them."""

    def __init__(self, notes: _Record, group: str, seed: int):
        self.policy = notes.policy
        kept = sorted(notes.notes, key=lambda x: x.valid)
        self.states, self.counts = [x.state for x in kept], np.array([x.valid for x in kept])
        self.group, self.rng = group, np.random.default_rng([seed, 2])

    def show(self, world: Any, encoder: Any, out: np.ndarray, shown: np.ndarray) -> None:
        """Show other states than those of the world."""
        shown[:] = out
        places = encoder.groups[self.group] if self.group else [(...,)]
        counts = _counts(self.policy.allowed(world))
        for e in np.flatnonzero(world.asked).tolist():
            low, high = np.searchsorted(self.counts, [counts[e], counts[e] + 1])
            if high - low < NEAR:
                low = max(min(low, len(self.counts) - NEAR), 0)
                high = min(low + NEAR, len(self.counts))
            other = self.states[int(self.rng.integers(low, high))]
            state = shown[e]
            for place in places:
                state[place] = other[place]


def _entropy(scores: np.ndarray) -> float:
    """The entropy of the softmax of scores [.., A], as a share of that of all valid actions being equal."""
    x = np.where(np.isfinite(scores), scores, -np.inf).astype(float)
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    most = np.log(np.maximum((p > 0).sum(axis=-1), 2))
    return float((-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1) / most).mean())


def _per_job(wide: int, weights: np.ndarray | float = 0.0) -> Forward:
    """A network per job that weighs its `wide` features."""
    dense = np.zeros((1, wide), np.float32) + np.asarray(weights, np.float32)
    return Forward({"kind": "perjob", "sizes": [wide, 1]}, {"net.0.weight": dense, "net.0.bias": np.zeros(1, np.float32)})


def _one_hot(shape: tuple[int, ...], chosen: np.ndarray) -> np.ndarray:
    """A table of scores of that shape whose best actions are these, of each part."""
    table = np.zeros(shape, np.float32)
    np.put_along_axis(table, chosen.reshape(*shape[:-1], 1), 1.0, axis=-1)
    return table


def _mean_scores(notes: _Record) -> np.ndarray:
    """The mean scores [.., A] of actions where they are valid; of those that never are, less than any other."""
    scores = np.stack([x.scores for x in notes.notes])
    valid = np.isfinite(scores)
    mean = np.where(valid, scores, 0.0).sum(axis=0) / np.maximum(valid.sum(axis=0), 1)
    return np.where(valid.any(axis=0), mean, mean.min() - 1.0)


def _agreement(notes: _Record) -> float:
    """The share of states in which the table of mean scores would decide the same; of a network per job, the first job."""
    if notes.policy.forward.kind == "perjob":
        return float(np.mean([int(x.decision) == 0 for x in notes.notes]))
    table = _mean_scores(notes)
    same = [(np.where(np.isfinite(x.scores), table, -np.inf).argmax(axis=-1) == x.decision).all() for x in notes.notes]
    return float(np.mean(same))


def _twins(policy: NeuralPolicy, notes: _Record) -> dict[str, Forward]:
    """The networks of constant twins by name. Of a network per job: orders by one of its features."""
    if policy.forward.kind == "perjob":
        wide = notes.notes[0].state.shape[1]
        names = dict(enumerate(policy.metadata.get("features", ())))
        orders = {
            f"{word} {names.get(k, k)} first": _per_job(wide, sign * np.eye(wide)[k])
            for k in range(wide)
            for sign, word in ((-1.0, "smallest"), (1.0, "largest"))
        }
        return {"first come, first served": _per_job(wide)} | orders
    table = _mean_scores(notes)
    shape = table.shape
    mean: dict[str, Forward] = {"one table: its mean scores": Constant(table)}
    liked, often = np.unique([x.decision for x in notes.notes], axis=0, return_counts=True)
    liked = liked[np.argsort(-often, kind="stable")]
    if len(shape) > 1:
        return mean | {"one table: its most frequent": Constant(_one_hot(shape, liked[0]))}
    void = shape[0] - 1 if policy.jobsets else -1  # to do nothing for ever is no twin
    slots = [k for k in dict.fromkeys([0, *liked[:SLOTS].tolist()]) if k != void]
    return mean | {f"always slot {k}": Constant(_one_hot(shape, np.array([k]))) for k in slots}


@dataclass(frozen=True)
class StateUse:
    """What a probe has found. Effects are of the score (of a jobset, small is good), paired by jobset.

    Attributes
    ----------
    policy, on, score : str
        The policy, what it played, what its score is.
    states, choices, decisions : int
        Different states among those that were kept, choices with at least two valid actions, different decisions there (of a
        network per job: the place of the job in the queue).
    frequent : float
        Share of the most frequent decision.
    agreement : float
        Share of the states in which one table, its mean scores, would decide the same (of a network per job: the first job).
    entropy : float
        Mean entropy of its probabilities, 1: all valid actions are alike.
    own : float
        Its mean score.
    twin : str
        The constant twin that does best on the same jobs.
    against_twin : Effect
        Its score against that twin's: below 0 it is ahead.
    exchanged : dict of str to Effect
        Its score with the states of other moments against its own: "" the whole state, else a group of inputs.
    scores : dict of str to list of float
        Scores by jobset: "own", "twin", "exchanged".
    """

    policy: str
    on: str
    score: str
    states: int
    choices: int
    decisions: int
    frequent: float
    agreement: float
    entropy: float
    own: float
    twin: str
    against_twin: Effect
    exchanged: dict[str, Effect]
    scores: dict[str, list[float]]

    @property
    def word(self) -> str:
        """One of USES, HARDLY, NOT."""
        whole, is_ahead = self.exchanged[""], self.against_twin.high < 0
        if self.states >= STATES and not is_ahead and whole.low > -ALIKE and whole.high < ALIKE:
            return NOT
        return USES if whole.low > 0 and is_ahead else HARDLY

    def sentence(self) -> str:
        """Return the answer in a sentence or two."""
        whole, twin = self.exchanged[""].text(), self.against_twin.text()
        counted = f"{self.decisions:,} different decisions in {self.states:,} different states"
        verb = {USES: "uses the state", HARDLY: "hardly uses the state", NOT: "does not use the state at all"}[self.word]
        exchange = f"states of other moments change its {self.score} by {whole}"
        return f"{self.policy} {verb}: {counted}; {exchange}; {twin} against its best constant twin ({self.twin})."

    def rows(self) -> list[list[str]]:
        """Return its table: (what, value)."""
        exchanged = [[f"shown {k or 'the state'} of other moments", x.text()] for k, x in self.exchanged.items()]
        return [
            ["state use", self.word],
            ["played", self.on],
            [self.score, f"{self.own:,.2f}"],
            ["different states", f"{self.states:,}, of {self.choices:,} choices"],
            ["different decisions", f"{self.decisions:,}; the most frequent: {self.frequent:.0%}"],
            ["as one table decides", f"{self.agreement:.0%}"],
            ["entropy, 1: all actions alike", f"{self.entropy:.2f}"],
            ["best constant twin", self.twin],
            ["against that twin", self.against_twin.text()],
            *exchanged,
        ]

    def to_dict(self) -> dict:
        """Return its numbers as JSON takes them."""
        plain = {k: v for k, v in vars(self).items() if k not in ("against_twin", "exchanged")}
        effects = {k or "state": x.to_dict() for k, x in self.exchanged.items()}
        return plain | {"state_use": self.word, "against_twin": self.against_twin.to_dict(), "exchanged": effects}


Score = Callable[[Any], np.ndarray]  # a policy -> [K] a score of each jobset, small is good


def on_log(log: Workload) -> tuple[Score, str, str]:
    """(how a policy is scored on unseen windows, what they are, the score in a word)."""
    test = unseen(log)
    size = max(min(WINDOW_JOBS, len(test) // 12), 2)
    rows = windows.begins(len(log) - len(test), len(log), size, WINDOWS)
    sets = [windows.shifted(log, row, size, 0, 0.0, 0)[0] for row in rows]

    def score(policy: Any) -> np.ndarray:
        return windows.slowdowns(simulate_many(sets, policy))

    return score, f"{len(sets)} windows of the unseen 30 % of {log.name}", "mean bounded slowdown"


def _on_jobsets(policy: NeuralPolicy, log: Workload | None, seed: int) -> tuple[Score, str, str]:
    """The same on whole jobsets, drawn or cut as those that it was trained on."""
    config: Any = imported(worlds()[policy.spec].config).of(policy)
    config.checked_log(log, policy.label)
    sets = config.sets(TEST, JOBSETS, log)

    def score(one: Any) -> np.ndarray:
        return np.asarray(config.judged(sets, one, seed, policy.tick)["slowdown"])

    return score, f"{len(sets)} jobsets that training has not seen", config.measure.split(" (")[0]


def _effect(ours: np.ndarray, base: np.ndarray, in_time: bool) -> Effect:
    """The effect of scores [K] against others; without end against a policy that leaves jobs waiting for ever."""
    if np.isfinite(ours).all() and np.isfinite(base).all():
        return change(ours, base, windows=in_time)
    most = np.inf if np.isfinite(base).all() else -1.0
    return Effect(most, most, most, 0.0, 0.0, most, 0.0, len(ours))


def probe(
    policy: str | NeuralPolicy,
    log: Workload | None = None,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> StateUse:
    """Measure how much a learned policy depends on the state that it is shown.

    Parameters
    ----------
    policy : str or NeuralPolicy
        A network: a run folder, a policy file, `zoo:NAME`, or the policy itself.
    log : Workload, optional
        Of a policy for logs: it plays windows of the last 30 %. None: it plays the jobsets of its own training's kind.
    seed : int
        Of the exchanges.
    progress : callable, optional
        Called with (replays done, replays).

    Raises
    ------
    InputError
        The policy is no network, cannot schedule the log, leaves jobs waiting for ever, or had nothing to choose.
    """
    chosen: Any = resolve(policy)
    if not chosen.looks:
        raise InputError(f"policy {chosen.name} is no network: it ranks by a formula, and has no state to be shown")
    if log is None and not chosen.jobsets:
        raise InputError(f"on which log? policy {chosen.name} schedules logs")
    score, on, word = _on_jobsets(chosen, log, seed) if chosen.jobsets else on_log(log)  # type: ignore[arg-type]
    done, total = 0, 2

    def played(one: NeuralPolicy) -> np.ndarray:
        nonlocal done
        result = score(one)
        done += 1
        if progress:
            progress(done, total)
        return result

    notes = _Record(chosen, seed)
    own = played(replace(chosen, lens=notes))
    if not notes.notes:
        raise InputError(f"policy {chosen.name}: there was nothing to choose in {on}")
    twins, groups = _twins(chosen, notes), ["", *notes.encoder.groups]
    total = 1 + len(twins) + len(groups)

    def compared(one: NeuralPolicy) -> np.ndarray:
        try:
            return played(one)
        except Unfinished:  # it leaves jobs waiting for ever
            return np.full(len(own), np.inf)

    scores = {k: compared(chosen.with_network(x)) for k, x in twins.items()}
    best = min(scores, key=lambda k: float(np.log(scores[k]).mean()))
    shuffled = {g: compared(replace(chosen, lens=_Exchange(notes, g, seed))) for g in groups}
    often = Counter(x.decision.tobytes() for x in notes.notes)
    return StateUse(
        policy=chosen.name,
        on=on,
        score=word,
        states=len({x.state.tobytes() for x in notes.notes}),
        choices=notes.choices,
        decisions=len(often),
        frequent=often.most_common(1)[0][1] / often.total(),
        agreement=_agreement(notes),
        entropy=float(np.mean([_entropy(x.scores) for x in notes.notes])),
        own=float(own.mean()),
        twin=best,
        against_twin=_effect(own, scores[best], not chosen.jobsets),
        exchanged={g: _effect(x, own, not chosen.jobsets) for g, x in shuffled.items()},
        scores={"own": own.tolist(), "twin": scores[best].tolist(), "exchanged": shuffled[""].tolist()},
    )
