"""Values as Slurm prints them: durations, memory, lists of nodes, trackable resources, tables. All raise ValueError."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np

from jobwise.workloads.fields import gpus_in, said


def pairs(text: str) -> dict[str, str]:
    """Key=Value words of a record of scontrol; a value may hold blanks."""
    parsed = re.findall(r"(\w[\w:]*)=(.*?)(?=\s+\w[\w:]*=|\s*$)", text, re.S)
    return {k: v.strip() for k, v in parsed}


DIAGNOSES = {  # what sdiag says of the scheduler: (heading, key) -> name here, unit
    ("", "Server thread count"): ("threads", 1.0),
    ("Main schedule statistics", "Last cycle"): ("main_s", 1e-6),
    ("Backfilling stats", "Last cycle"): ("backfill_s", 1e-6),
    ("Backfilling stats", "Last depth cycle"): ("backfill_depth", 1.0),
}


def diagnosis(text: str) -> dict[str, float]:
    """Return the scheduler's data in `sdiag`, as far as it can be read: server threads, the last main pass and the last
    backfill cycle (s), and the number of jobs in that cycle."""
    out, heading = {}, ""
    for line in text.splitlines():
        key, _, value = (x.strip() for x in line.partition(":"))
        if not line[:1].isspace():
            heading = next((h for h, _ in DIAGNOSES if h and line.startswith(h)), "")
        if (heading, key) in DIAGNOSES and value.isdigit():
            name, unit = DIAGNOSES[heading, key]
            out[name] = int(value) * unit
    return out


def records(text: str, first: str) -> list[dict[str, str]]:
    """The records of `scontrol show`, each beginning with the key `first`; a line or several for each."""
    return [pairs(x) for x in re.split(rf"(?m)^(?={first}=)", text) if x.startswith(f"{first}=")]


def config(text: str) -> dict[str, str]:
    """`scontrol show config`, or a slurm.conf: settings by their names in small letters."""
    parsed = re.findall(r"^([A-Za-z]\w*)(?:\[\d+\])?[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.M)  # Epilog[0] = …
    return {k.lower(): said(v) for k, v in parsed}


def table(text: str) -> list[dict[str, str]]:
    """Rows of a table with | between its columns and a line of names; the last column may hold |."""
    lines = [x for x in text.splitlines() if x.strip()]
    names = lines[0].rstrip("|").split("|") if lines else []
    return [dict(zip(names, x.split("|", len(names) - 1), strict=False)) for x in lines[1:]]


def amount(text: str) -> float:
    """A number from 0 on. Raises ValueError."""
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not 0 <= number < np.inf:
        raise ValueError(f"{text[:30]!r} is no number from 0 on")
    return number


def memory(text: str) -> int:
    """MiB of 4000M, 62.50G, 1T; a number alone is MiB, a letter n or c behind it (of a node, of a CPU) is left out."""
    parsed = re.fullmatch(r"([\d.]+)([KMGTPkmgtp]?)[nc]?", text.strip())
    if not parsed:
        raise ValueError(f"{text[:30]!r} is no amount of memory")
    return int(float(parsed[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}[parsed[2].upper()])


MOST_NAMES = 200_000  # of a list of nodes


def nodes(text: str) -> list[str]:
    """node[01-03,7],other -> node01 node02 node03 node7 other; at most MOST_NAMES of them."""
    expanded: list[str] = []
    for word in re.findall(r"(?:[^,\[\]]+|\[[^\]]*\])+", text):
        parts = re.split(r"\[([^\]]*)\]", word)  # text, what is in brackets, text, …
        inside = [_ranges(x, text) for x in parts[1::2]]
        if len(expanded) + prod(sum(map(len, ranges)) for ranges in inside) > MOST_NAMES:
            raise ValueError(f"{text[:40]!r} names more than {MOST_NAMES:,} nodes")
        names = [parts[0]]
        for ranges, after in zip(inside, parts[2::2], strict=True):
            numbers = [f"{n:0{r.width}d}{after}" for r in ranges for n in r.numbers]
            names = [before + x for before in names for x in numbers]
        expanded += names
    return expanded


@dataclass(frozen=True)
class _Range:
    numbers: range
    width: int  # digits, with leading zeros

    def __len__(self) -> int:
        return len(self.numbers)


def _ranges(inside: str, text: str) -> list[_Range]:
    """Return the ranges in brackets: 01-03,7. Raises ValueError."""
    ranges = []
    for part in inside.split(","):
        low, _, high = part.partition("-")
        digits = re.fullmatch(r"[0-9]{1,12}", low) and re.fullmatch(r"[0-9]{1,12}", high or low)
        if not digits or int(high or low) - int(low) >= MOST_NAMES:
            raise ValueError(f"{text[:40]!r} is no list of nodes")
        ranges.append(_Range(range(int(low), int(high or low) + 1), len(low)))
    return ranges


def resources(text: str) -> dict[str, float]:
    """cpu=4,mem=8000M,node=1,gres/gpu=2 -> {"cpu": 4, …, "gpu": 2}; typed GPUs are summed where no sum is given."""
    amounts: dict[str, float] = {"gpu": float(gpus_in(text))}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key == "mem":
            amounts["mem"] = memory(value)
        elif key in ("cpu", "node"):
            amounts[key] = float(value)
    return amounts


def limited(text: str) -> dict[str, float]:
    """cpu=4,gres/gpu=0,mem=-1 -> {"cpu": 4, "gpu": 0}: the resources that a limit names; -1 is none."""
    named = {x.partition("=")[0].partition(":")[0].replace("gres/gpu", "gpu") for x in text.split(",") if not x.endswith("=-1")}
    return {k: v for k, v in resources(",".join(x for x in text.split(",") if not x.endswith("=-1"))).items() if k in named}


def gpus(text: str) -> int:
    """gpu:2, gpu:a100:2, gres:gpu:2(S:0-1), a100:2, 2: how many."""
    count = 0
    for part in re.sub(r"\([^)]*\)", "", text).removeprefix("gres:").split(","):
        words = part.split(":")
        if part and (words[0] in ("gpu", "gres/gpu") or "gpu" not in text):
            count += int(words[-1]) if words[-1].isdigit() else 1
    return count


def features_of(text: str) -> list[set[str]]:
    """a&b|c -> [{a, b}, {c}]: any of these; counts and brackets are left out."""
    return [set(re.sub(r"[\[\]()]|\*\d+", "", x).split("&")) for x in text.split("|")]
