"""Options of scheduler names, `+…` behind an order or a rule: a row each.

A row reads and writes its word, checks its value, explains itself, and says where it runs and what it excludes. The names of
policies, their errors, `jobwise policies` and the tables of docs/orders.md come from rows. PARTS are those of list schedulers;
worlds have tables of their own (`worlds/*/policy.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.policies import left
from jobwise.sim.lists.list_pass import (
    ACTUAL,
    CONSERVATIVE,
    EASY,
    EASY_ORACLE,
    EASY_SJBF,
    GREEDY,
    NONE,
    PREDICTED,
    REQUESTED,
    SLURM,
)
from jobwise.sim.lists.placement import PLACEMENTS
from jobwise.sim.pool import scored_pool
from jobwise.workloads.durations import SECONDS

NUMBER = r"(\d{1,15}(?:\.\d{1,15})?)"
POOL, NODES, SITE, ASKED, STREAM = "pool", "nodes", "site", "asked", "stream"
PLACES = {
    POOL: "pools of processors",
    NODES: "clusters of nodes",
    SITE: "sites (see `jobwise slurm site`)",
    ASKED: "clusters that ask view by view",
    STREAM: "logs that stream",
}
TRAITS: dict[str, tuple[Callable[[Any], bool], str]] = {  # of a list scheduler: has it?, in words
    "scores": (
        lambda p: scored_pool.suits(p.rule),
        "built-in orders and trained indices that no start changes, with easy, easy-sjbf or without backfilling",
    ),
    "promises": (lambda p: p.promises, "a promise or an express lane"),
    "history": (lambda p: p.learns, "orders that know the run times of jobs that have ended"),
}


@dataclass(frozen=True)
class Part:
    """One option: `field` = a value that `word` stands for, or that `read` makes of a match of `pattern`.

    `heading`: where help lists it. `example`: a word of it. `usual`: the value that needs no word. `write`: its inverse of
    `read`. `number`: of the value, for kernels. `wrong`: why a value cannot be, else "". `runs_on`: keys of PLACES. `needs`,
    `excludes`: TRAITS of the scheduler, or words; `word@asked` where views are asked alone.
    """

    heading: str
    field: str
    example: str
    doc: str
    value: Any = None
    usual: Any = None
    pattern: str = ""
    read: Callable[[re.Match], Any] | None = None
    write: Callable[[Any], str] | None = None
    number: Any = None
    wrong: Callable[[Any], str] = lambda value: ""
    runs_on: frozenset[str] = frozenset({POOL, NODES, SITE, ASKED})
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def match(self, word: str) -> tuple[bool, Any]:
        """Return (whether `word` is of this part, the value it stands for)."""
        if self.read is None:
            return word == self.example, self.value
        parsed = re.fullmatch(self.pattern, word)
        return parsed is not None, self.read(parsed) if parsed else None

    def word(self, value: Any) -> str:
        """Return the word for a value of the field, "" where this part does not stand for it."""
        if value == self.usual or (self.read is None and value != self.value):
            return ""
        return self.example if self.write is None else self.write(value)


def _fixed(heading: str, field: str, usual: Any, number: Any, example: str, doc: str, value: Any = None, **more: Any) -> Part:
    return Part(heading, field, example, doc, example if value is None else value, usual, number=number, **more)


def _least(least: float, text: str) -> Callable[[float], str]:
    return lambda value: "" if value > least else text.format(value)


def _duration(parsed: re.Match, first: int = 1) -> float:
    return float(parsed[first]) * SECONDS[parsed[first + 1]]


def _digits(value: float) -> str:
    """Six digits of a number, as names are read: without an exponent."""
    return np.format_float_positional(float(f"{value:.6g}"), trim="-")


def _reserves(value: tuple[float, float]) -> str:
    text = f"a reserve of {value[0]:g} of the units for jobs of up to {value[1]:g} s cannot be: 0 to 1, and more than 0 s"
    return "" if 0 <= value[0] < 1 and value[1] > 0 else text


QUANTUM = 60.0  # s for which a first trial run is left alone, where the name does not say


def _trial(parsed: re.Match) -> tuple[float, float]:
    value = (_duration(parsed) if parsed[1] else QUANTUM), float(parsed[3] or 0) / 100
    if text := _wrong_trial(value):  # 0 s would be no trial runs at all
        raise InputError(text)
    return value


def _wrong_trial(value: tuple[float, float]) -> str:
    text = f"trial runs of {value[0]:g} s on {100 * value[1]:g} % of the processors cannot be: more than 0 s, 0 to 99 %"
    return "" if 0 < value[0] < inf and 0 <= value[1] < 1 else text


def _trial_word(value: tuple[float, float]) -> str:
    words = [f"{_digits(value[0])}s"] if value[0] != QUANTUM else []
    return "trial" + "x".join(words + ([f"{_digits(100 * value[1])}%"] if value[1] else []))


BACKFILLING, PLACING, GUARDS, MORE = "backfilling", "placement (on nodes)", "guards", "more options"
EVERYWHERE = frozenset(PLACES)
ON_PLACES = frozenset({NODES, ASKED})
ON_POOLS = frozenset({POOL, ASKED})
OFF_SITES = frozenset({POOL, NODES, ASKED})


def _backfill(example: str, number: int, doc: str, **more: Any) -> Part:
    return _fixed(BACKFILLING, "backfill", "none", number, example, doc, **more)


def _placement(example: str, doc: str, **more: Any) -> Part:
    return _fixed(PLACING, "placement", "first", PLACEMENTS.get(example), example, doc, **{"runs_on": ON_PLACES} | more)


PARTS = (
    _backfill("none", NONE, "jobs start in order; when one does not fit, all wait (the default)", runs_on=EVERYWHERE),
    _backfill("easy", EASY, "one reservation, for the first job that does not fit; others start if they do not delay it",
              runs_on=EVERYWHERE),
    _backfill("easy-sjbf", EASY_SJBF, "EASY, backfilling the shortest first", runs_on=EVERYWHERE - {SITE}),
    _backfill("easy-oracle", EASY_ORACLE, "EASY with true run times (CQSim's), which no cluster knows",
              runs_on=frozenset({POOL, NODES})),
    _backfill("greedy", GREEDY, "RLScheduler's: jobs that end before the reservation alone", runs_on=OFF_SITES),
    _backfill("conservative", CONSERVATIVE, "every job has a reservation; after an early end each is made again, never later"),
    _backfill("slurm", SLURM, "Slurm's main pass and backfill cycles, in this order (what steering its priorities would do)",
              runs_on=frozenset({SITE})),
    _placement("first", "lowest nodes first (the default)"),
    _placement("pack", "as few nodes as possible"),
    _placement("spread", "as many nodes as possible"),
    _placement("best", "nodes that are left with least"),
    _placement("balance", "nodes with most left"),
    _placement("typed", "spread compute-intensive jobs, pack the others"),
    _fixed(MORE, "estimate", "requested", REQUESTED, "requested", "the order goes by requested run times (the default)",
           runs_on=EVERYWHERE),
    _fixed(MORE, "estimate", "requested", PREDICTED, "predicted", "the order goes by run times predicted from history",
           runs_on=OFF_SITES, needs=("scores",), excludes=("history", "easy-sjbf@asked")),
    _fixed(MORE, "estimate", "requested", ACTUAL, "actual", "the order goes by true run times, which no cluster knows",
           runs_on=frozenset({POOL}), needs=("scores",)),
    Part(GUARDS, "guard", "guard24h", "a job that has waited 24 h (or s, m, d) goes first, oldest first", usual=inf,
         pattern=rf"guard{NUMBER}([smhd])", read=_duration, write=lambda s: f"guard{_digits(s / 3600)}h", runs_on=EVERYWHERE,
         wrong=_least(0, "the guard is {} s; it must be more than 0")),
    Part(MORE, "reserve", "reserve0.2x100s", "jobs that ask for more than 100 s hold at most 80 % of the processors",
         usual=(0.0, inf), pattern=rf"reserve(0?\.\d{{1,15}})x{NUMBER}([smhd])", read=lambda m: (float(m[1]), _duration(m, 2)),
         write=lambda r: f"reserve{_digits(r[0])}x{_digits(r[1])}s" if r[0] else "", wrong=_reserves, runs_on=OFF_SITES,
         excludes=("commit", "conservative", "history")),
    Part(GUARDS, "express", "express1%", "the smallest jobs, 1 % of the work, go before all others", usual=0.0,
         pattern=rf"express{NUMBER}%", read=lambda m: float(m[1]) / 100, write=lambda x: f"express{_digits(100 * x)}%",
         wrong=lambda x: "" if 0 <= x < 1 else f"an express lane is 0 to 99 % of the work, not {100 * x:g} %",
         runs_on=ON_POOLS, needs=("scores",)),
    Part(GUARDS, "promise", "promise1.1x",
         "each job has a deadline, 1.1 times the longest wait under fcfs+easy so far; others go first while all are kept",
         usual=inf, pattern=rf"promise{NUMBER}x", read=lambda m: float(m[1]), write=lambda x: f"promise{_digits(x)}x",
         wrong=lambda x: "" if x >= 1 else f"a promise is 1 or more times the longest wait, not {x:g}",
         runs_on=ON_POOLS, needs=("scores",)),
    Part(MORE, "trial", "trial", "waiting jobs run in idle processors, and begin again where a start needed these; +trial30s: "
         "left alone for 30 s at first (not 60), +trial2%: starts leave them 2 % of the processors, +trial30sx2%: both",
         usual=(0.0, 0.0), pattern=rf"trial(?:{NUMBER}([smhd]))?(?:x?{NUMBER}%)?", read=_trial, write=_trial_word,
         wrong=_wrong_trial, runs_on=frozenset({POOL}), needs=("scores",)),
    Part(MORE, "shift", "shift8h",
         "a job is held while it is cheaper to start later, up to 8 h and as long as it asks to run (with --prices)", usual=0.0,
         pattern=rf"shift{NUMBER}([smhd])", read=_duration, write=lambda s: f"shift{_digits(s / 3600)}h" if s else "",
         wrong=lambda s: "" if 0 <= s < inf else f"jobs are held for 0 s or longer, not {s:g}", runs_on=frozenset({POOL}),
         needs=("scores",), excludes=("commit",)),
    _fixed(MORE, "commit", False, True, "commit", "a picked job stays picked until it starts (RLScheduler's)", True,
           runs_on=OFF_SITES, excludes=("conservative",)),
)  # fmt: skip
LEARNED = _placement("learned", "where jobs of its kind, application or user have run shortest so far")  # `learned.py`
COST = Part(MORE, "cost", "cost0.5", "MARS's models: a job's cost lowers its probability, the more the larger the number",
            usual=0.0, pattern=rf"cost{NUMBER}", read=lambda m: float(m[1]), write=lambda x: f"cost{_digits(x)}")  # fmt: skip
GRAMMAR = (*PARTS, LEARNED, COST)  # all options behind an order


def read(parts: Sequence[Part], policy: str, words: Iterable[str]) -> dict[str, Any]:
    """Return {field: value} of the words behind an order. Raises InputError, with the nearest word."""
    chosen: dict[str, Any] = {}
    for word in words:
        hits = [(part.field, value) for part in parts for fits, value in (part.match(word),) if fits]
        if not hits:
            left.check("options", word, f"policy {policy!r}: ")
            raise unknown("option", word, [part.example for part in parts], f"policy {policy!r}: ")
        field, value = hits[0]
        if field in chosen:
            raise InputError(f"policy {policy!r} names two choices of {field}")
        chosen[field] = value
    return chosen


def used(scheduler: Any) -> list[tuple[Part, str]]:
    """Return the parts, each with its word, that a list scheduler has beside its order, in the order of PARTS."""
    pairs = ((part, part.word(getattr(scheduler, part.field))) for part in PARTS)
    return [(part, word) for part, word in pairs if word]


def words(parts: Sequence[Part], values: Mapping[str, Any], usual: Mapping[str, Any] | None = None) -> list[str]:
    """Return the words for these values; `usual`: values that need none, where they are not those of the parts."""
    usual = usual or {}
    kept = (part for part in parts if part.field not in usual or values[part.field] != usual[part.field])
    return [word for part in kept if (word := part.word(values[part.field]))]


def as_typed(chosen: Mapping[str, Any]) -> str:
    """Return the options of {field: value} as a name has them, `+easy+guard24h`."""
    options = [(part, chosen[part.field]) for part in GRAMMAR if part.field in chosen]
    return "".join(f"+{word}" for part, value in options if (word := part.word(value)))


def number(field: str, value: Any) -> Any:
    """Return the number that kernels have for a value. Raises InputError for one that no part stands for."""
    values = {part.value: part.number for part in PARTS if part.field == field}
    if not isinstance(value, str) or value not in values:
        raise unknown(field, str(value), values)
    return values[value]


def check(scheduler: Any) -> None:
    """Raises InputError for a list scheduler whose parts do not go together."""
    for field in ("backfill", "placement", "estimate"):
        number(field, getattr(scheduler, field))
    for part in PARTS:
        value = getattr(scheduler, part.field)
        if value == part.usual or part.read is None:
            continue
        try:
            text = part.wrong(value)
        except (TypeError, IndexError, ValueError):
            text = f"{part.field} = {value!r} is of another kind than that of +{part.example}"
        if text:
            raise InputError(text)
    chosen = used(scheduler)
    for part, word in chosen:
        for trait in part.needs:
            holds, text = TRAITS[trait]
            if not holds(scheduler):
                raise InputError(f"policy {scheduler.name}: +{word} needs {text}")
        _exclude(scheduler, part, word, chosen, "")


def check_place(scheduler: Any, place: str) -> None:
    """Raises InputError where a part of a list scheduler does not run on `place`, a key of PLACES."""
    chosen = scheduler.used
    for part, word in chosen:
        if place not in part.runs_on:
            there = " and ".join(text for key, text in PLACES.items() if key in part.runs_on and key not in (ASKED, STREAM))
            raise InputError(f"policy {scheduler.name}: +{word} is for {there}, not for {PLACES[place]}")
        _exclude(scheduler, part, word, chosen, place)


def _exclude(scheduler: Any, part: Part, word: str, chosen: list[tuple[Part, str]], where: str) -> None:
    """Raises InputError where `part` excludes another one, `where`: everywhere ("") or at a key of PLACES."""
    for name in part.excludes:
        other, _, place = name.partition("@")
        if place != where:
            continue
        holds = TRAITS[other][0](scheduler) if other in TRAITS else any(p.example == other for p, _ in chosen)
        if holds:
            text = TRAITS[other][1] if other in TRAITS else next(f"+{w}" for p, w in chosen if p.example == other)
            raise InputError(f"policy {scheduler.name}: +{word} does not go with {text}")


def split(policy: str, prefix: str, example: str, usual_s: float) -> tuple[str, list[str], float]:
    """Return (rule, words, seconds in a row) of a name `PREFIX:RULE[+…][@60s]` of a world of rows. Raises InputError."""
    parsed = re.fullmatch(rf"{prefix}:([^@]+)(?:@{NUMBER}s)?", policy)
    if not parsed:
        raise InputError(f"policy {policy!r}: a rule, its options, the seconds of a row are expected, as in {example}")
    rule, *options = parsed[1].split("+")
    return rule, options, float(parsed[2] or usual_s)


def rows_name(prefix: str, rule: str, options: Iterable[str], tick: float, usual_s: float) -> str:
    """Return the name of a rule of a world of rows: the inverse of `split`."""
    return f"{prefix}:{'+'.join([rule, *options])}" + (f"@{_digits(tick)}s" if tick != usual_s else "")


def examples(parts: Sequence[Part], prefix: str, rules: Iterable[str], named: Callable[[str], Any]) -> dict[str, str]:
    """Return {`PREFIX:RULE+OPTION`: what the option does}, each with the first rule that the option changes."""
    shown = {}
    for part in parts:
        names = (f"{prefix}:{rule}+{part.example}" for rule in rules)
        shown[next(name for name in names if named(name).name == name)] = part.doc
    return shown
