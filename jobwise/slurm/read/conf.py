"""Lines of slurm.conf, both ways: what they set in the simulator, and which lines a setting needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.site import settings
from jobwise.slurm.read import unsimulated
from jobwise.slurm.read.text import amount, said
from jobwise.workloads.fields import seconds


@dataclass(frozen=True)
class ConfLine:
    """A name of slurm.conf: the setting (`site.settings_dtype`) that it gives, how it is read, how it is written."""

    field: str
    read: Callable[[str, float], float]  # (text, the setting so far); raises ValueError
    write: Callable[[float], str]


def _number(text: str, before: float) -> float:
    return amount(text)


def _whole(text: str, before: float) -> float:
    if _number(text, before) < 1:
        raise ValueError(f"{text!r} is less than 1")
    return float(text)


def _time(text: str, before: float) -> float:
    if not 0 < (number := seconds(text)) < np.inf:
        raise ValueError(f"{text!r} is no time above 0")
    return number


def _age(text: str, before: float) -> float:
    return max(seconds(text), 1e-3)  # 0: everybody is of the greatest age at once


def _half_life(text: str, before: float) -> float:
    return seconds(text) or np.inf


def clock(s: float) -> str:
    """Return [days-]hours:minutes:seconds of `s` seconds."""
    if s == np.inf:
        return "0"
    s = int(s)
    days = f"{s // 86_400}-" if s >= 86_400 else ""
    return f"{days}{s // 3600 % 24:02d}:{s // 60 % 60:02d}:{s % 60:02d}"


def _flag(*words: str, on: str, off: str) -> tuple[Callable, Callable]:
    return (lambda text, before: any(w in text.lower() for w in words)), (lambda x: on if x else off)


def _minutes(text: str, before: float) -> float:
    return 60.0 * _whole(text, before)


def _most(text: str, before: float) -> float:
    return _number(text, before) or np.inf  # 0: any number


def _plain(x: float) -> str:
    return "0" if x == np.inf else f"{x:g}" if x % 1 else f"{int(x)}"


def _version(text: str, before: float) -> float:
    """Return the number 260503 for version 26.05.3."""
    if not (m := re.match(r"(\d\d)\.(\d\d)(?:\.(\d{1,2}))?(?!\d)", text.strip())):
        raise ValueError(f"{text!r} is no version such as 26.05.3")
    return 10_000.0 * int(m[1]) + 100 * int(m[2]) + int(m[3] or 0)


def _release(x: float) -> str:
    return f"{int(x) // 10_000:02d}.{int(x) // 100 % 100:02d}.{int(x) % 100}"


PREEMPT: tuple[str, ...] = ("preempt/none", "preempt/partition_prio", "preempt/qos")
_yes = _flag("yes", "1", on="YES", off="NO")
LINES = {
    "SLURM_VERSION": ConfLine("version", _version, _release),
    "PreemptType": ConfLine("preempt", lambda text, before: _preempt({"preempttype": text}), lambda x: PREEMPT[int(x)]),
    "PriorityType": ConfLine("basic", *_flag("basic", on="priority/basic", off="priority/multifactor")),
    "SchedulerType": ConfLine("backfill", *_flag("backfill", on="sched/backfill", off="sched/builtin")),
    "PriorityWeightAge": ConfLine("age", _number, _plain),
    "PriorityWeightFairShare": ConfLine("fair_share", _number, _plain),
    "PriorityWeightJobSize": ConfLine("size", _number, _plain),
    "PriorityWeightPartition": ConfLine("partition", _number, _plain),
    "PriorityWeightQOS": ConfLine("qos", _number, _plain),
    "PriorityMaxAge": ConfLine("max_age", _age, clock),
    "PriorityCalcPeriod": ConfLine("calc_period", _time, clock),
    "PriorityDecayHalfLife": ConfLine("half_life", _half_life, clock),
    "PriorityFavorSmall": ConfLine("favor_small", *_yes),
    "KillWait": ConfLine("kill_wait", lambda text, before: _number(text.removesuffix("sec").strip(), before), _plain),
    "SelectTypeParameters": ConfLine("memory", *_flag("memory", on="CR_Core_Memory", off="CR_Core")),
}
WORDS: dict[str, tuple[str, ...]] = {  # what a change may say
    "preempttype": PREEMPT,
    "prioritytype": ("priority/basic", "priority/multifactor"),
    "schedulertype": ("sched/backfill", "sched/builtin"),
    "priorityfavorsmall": ("yes", "no"),
    "selecttypeparameters": ("cr_core", "cr_core_memory", "cr_cpu", "cr_cpu_memory", "cr_socket", "cr_socket_memory"),
}
FLAGS = {"NO_FAIR_TREE": ("fair_tree", 0), "SMALL_RELATIVE_TO_TIME": ("small_relative", 1)}  # words of PriorityFlags
TRES = {"cpu": "tres_cpu", "mem": "tres_memory", "gres/gpu": "tres_gpu"}  # words of PriorityWeightTRES
PARAMETERS = {  # words of SchedulerParameters
    "batch_sched_delay": ConfLine("batch_delay", _number, _plain),
    "sched_interval": ConfLine("sched_interval", _number, _plain),
    "default_queue_depth": ConfLine("depth", _number, _plain),
    "bf_interval": ConfLine("bf_interval", _whole, _plain),
    "bf_window": ConfLine("bf_window", _minutes, lambda x: _plain(x / 60)),
    "bf_resolution": ConfLine("bf_resolution", _whole, _plain),
    "bf_max_job_test": ConfLine("bf_max_test", _whole, _plain),
    "bf_max_job_user": ConfLine("bf_max_user", _most, _plain),
    "bf_max_job_array_resv": ConfLine("bf_max_array", _number, _plain),
    "max_switch_wait": ConfLine("max_switch_wait", _number, _plain),
}


OFF = {"sched_interval": "main", "bf_interval": "backfill"}  # words of SchedulerParameters that -1 turns off, by their settings


def scheduler(known: dict[str, str], odd: list[str] | None = None) -> np.ndarray:
    """One row of `site.settings_dtype` from `text.config`. Where Slurm takes no such value, it takes its own, and so does the
    row; `odd` names them."""
    values, odd = settings(basic=1), [] if odd is None else odd
    small = {k.lower(): (k, v) for k, v in LINES.items()}
    for name, text in known.items():
        if name in small and said(text):
            _put_or_own(values, small[name][1], small[name][0], text, odd)
    values["price_phase"] = values["calc_period"]
    values["boot"] = float(boot) if (boot := known.get("boot_time", "")).isdigit() else 0.0
    values["epilog"] = said(known.get("epilog", "")) != "" and "defer" not in known.get("schedulerparameters", "")
    values["charged"] = known.get("accountingstorageenforce", "associations") != ""  # measured: docs/systems/slurm.md
    values["preempt"] = _preempt(known)
    words = known.get("preemptparameters", "") + known.get("schedulerparameters", "")
    values["youngest"] = "youngest_first" in words.lower()
    _flags(values, known.get("priorityflags", ""))
    try:
        _tres(values, ",".join(x for x in known.get("priorityweighttres", "").split(",") if _name(x) in TRES))
    except ValueError as error:
        odd.append(f"PriorityWeightTRES={known['priorityweighttres'][:60]} is not read ({error})")
    for word in filter(None, known.get("schedulerparameters", "").split(",")):
        name, _, text = (x.strip() for x in word.partition("="))
        if name in OFF and text == "-1":
            values[OFF[name]] = 0
        elif name in PARAMETERS and text:
            _put_or_own(values, PARAMETERS[name], name, text, odd)
    return values[0]


def _put_or_own(values: np.ndarray, line: ConfLine, name: str, text: str, odd: list[str]) -> None:
    try:
        _put(values, line, name, text)
    except ValueError as error:
        own = line.write(float(values[line.field][0]))
        odd.append(f"{name}={text[:40]} is not read ({str(error).removeprefix(f'{name}: ')}): Slurm's own, {own}")


def _preempt(known: dict[str, str]) -> int:
    """Return by what jobs stop others: 0 none, 1 by tiers of partitions, 2 by QOS."""
    by = PREEMPT.index(name) if (name := known.get("preempttype", "").lower()) in PREEMPT else 0
    return by if said(known.get("preemptmode", "")).upper() != "OFF" else 0


def _name(word: str) -> str:
    return word.partition("=")[0].strip().lower()


def not_simulated(known: dict[str, str]) -> list[str]:
    """Return the settings of a configuration that the simulator does not carry out."""
    names = unsimulated.of_config(known)
    words = [("PriorityWeightTRES", x) for x in known.get("priorityweighttres", "").split(",") if x and _name(x) not in TRES]
    for x in known.get("schedulerparameters", "").split(","):
        if x and _name(x) not in (*PARAMETERS, *WITHOUT_EFFECT, "preempt_youngest_first"):
            words.append(("SchedulerParameters", x))
    return names + [f"{x} of {name}" for name, x in words]


def _put(values: np.ndarray, line: ConfLine, name: str, text: str) -> None:
    try:
        values[line.field] = line.read(text, float(values[line.field][0]))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _flags(values: np.ndarray, text: str) -> None:
    for word, (name, value) in FLAGS.items():
        values[name] = value if word in text.upper() else 1 - value


def _tres(values: np.ndarray, text: str) -> None:
    for field in TRES.values():
        values[field] = 0.0
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if (key := TRES.get(name.strip().lower())) is None:
            raise ValueError(f"PriorityWeightTRES: {name!r} is not simulated; known are {', '.join(TRES)}")
        values[key] = _number(value, 0.0)


def change(before: np.ndarray, text: str) -> np.ndarray:
    """Settings [1] after one line `NAME=VALUE`, or one word of SchedulerParameters. Raises InputError."""
    name, has, value = (x.strip() for x in text.partition("="))
    values, small = before.copy(), {k.lower(): v for k, v in (LINES | PARAMETERS).items()}
    if not has:
        raise InputError(f"{text!r}: NAME=VALUE is expected, e.g. PriorityWeightAge=1000")
    try:
        if name.lower() == "priorityflags":
            for word in filter(None, value.upper().split(",")):
                if word not in FLAGS:
                    raise unknown("word of PriorityFlags", word, list(FLAGS))
            _flags(values, value)
        elif name.lower() == "priorityweighttres":
            _tres(values, value)
        elif name.lower() == "schedulerparameters":
            for word in filter(None, value.split(",")):
                if _name(word) not in (*PARAMETERS, *WITHOUT_EFFECT):
                    raise unknown("word of SchedulerParameters", word, list(PARAMETERS))
                if _name(word) in PARAMETERS:
                    values = change(values, word)
        elif name.lower() in OFF and value == "-1":
            values[OFF[name.lower()]] = 0
        elif name.lower() in small:
            if value.lower() not in WORDS.get(name.lower(), (value.lower(),)):
                raise ValueError(f"{' or '.join(WORDS[name.lower()])} is expected")
            _put(values, small[name.lower()], name, value)
        else:
            raise unknown(
                "line of slurm.conf that is simulated", name, [*LINES, "PriorityFlags", "PriorityWeightTRES", *PARAMETERS]
            )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{text!r}: {error}") from None
    return values


WITHOUT_EFFECT = ("bf_continue", "bf_yield_interval", "bf_yield_sleep", "bf_max_time", "bf_busy_nodes", "defer_batch")  # here


def lines(before: np.ndarray, after: np.ndarray) -> list[str]:
    """The lines of slurm.conf that lead from settings [1] to others."""
    texts = [f"{n}={x.write(float(after[x.field][0]))}" for n, x in LINES.items() if before[x.field] != after[x.field]]
    if any(before[f] != after[f] for f, _ in FLAGS.values()):
        words = [word for word, (f, value) in FLAGS.items() if after[f][0] == value]
        texts.append(f"PriorityFlags={','.join(words)}" if words else "# PriorityFlags: remove " + " and ".join(FLAGS))
    changed = [f"{n}={x.write(float(after[x.field][0]))}" for n, x in PARAMETERS.items() if before[x.field] != after[x.field]]
    return texts + ([f"SchedulerParameters={','.join(changed)}"] if changed else [])
