"""Requests of jobs: by their submit line, else by accounting's record of requested and allocated resources."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from math import inf

from jobwise.slurm.read.text import gpus, memory
from jobwise.workloads.fields import seconds

LONG = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "C": "constraint", "p": "partition", "d": "dependency"}
LONG |= {
    "w": "nodelist",
    "x": "exclude",
    "a": "array",
    "b": "begin",
    "G": "gpus",
    "t": "time",
    "q": "qos",
    "A": "account",
    "L": "licenses",
}
FLAGS: tuple[str, ...] = (
    "parsable",
    "exclusive",
    "wait",
    "hold",
    "requeue",
    "no-requeue",
    "overcommit",
    "contiguous",
    "spread-job",
    "quiet",
)
FLAGS += ("verbose", "test-only", "use-min-nodes", "reboot", "nice")
LETTERS = "HkIQsvO"  # flags
ALL = -1  # --mem=0: all memory of a node


def options(line: str) -> dict[str, str]:
    """The options of a line `sbatch …` (or salloc, srun) before the script, by their long names; {} where it has none."""
    try:
        words = shlex.split(line)
    except ValueError:
        return {}
    return parsed(words[1:])[0]


def parsed(words: Sequence[str]) -> tuple[dict[str, str], int]:
    """(the options of the words behind `sbatch`, by their long names; how many words they are: the script comes next)."""
    values, i = dict[str, str](), 0
    while i < len(words) and words[i].startswith("-") and len(words[i]) > 1:
        word, i = words[i], i + 1
        if word.startswith("--"):
            key, has, value = word[2:].partition("=")
            flag = bool(has) or key in FLAGS
        else:
            key, value = LONG.get(word[1], word[1]), word[2:].removeprefix("=")
            flag = bool(value) or word[1] in LETTERS
        if not flag and i < len(words):
            value, i = words[i], i + 1
        values[key] = value or "yes"
    return values, i


def by_line(o: dict[str, str], default: tuple[int, int]) -> tuple:
    """A row of `site.ask_dtype` (node set 0) from options; `default` MiB of a CPU, of a node, where it names no memory. Raises
    ValueError."""
    low, _, high = o.get("nodes", "").partition("-")
    least, most = int(low or 0), int(high or low or 0)
    tasks = int(o.get("ntasks", 0)) or int(o.get("ntasks-per-node", 1)) * max(least, 1)
    cpu = memory(o["mem-per-cpu"]) if "mem-per-cpu" in o else 0
    node = (memory(o["mem"]) or ALL) if "mem" in o else 0
    if not (cpu or node):
        cpu, node = default
    cards = gpus(o["gpus"]) if "gpus" in o else gpus(o["gpus-per-task"]) * tasks if "gpus-per-task" in o else 0
    of_node = gpus(o["gres"]) if "gpu" in o.get("gres", "") else gpus(o["gpus-per-node"]) if "gpus-per-node" in o else 0
    if cards and (tasks == 1 or most == 1):  # all on one node
        cards, of_node = 0, cards
    nice = o.get("nice", "0")
    whole = o.get("exclusive", "") in ("yes", "mcs")
    return (
        least,
        most,
        tasks,
        int(o.get("cpus-per-task", 1)),
        cpu,
        node,
        cards,
        of_node,
        whole,
        0,
        100 if nice == "yes" else int(nice),
        *(0, 0),
        int("no-requeue" in o),
        *(0,) * 7,
    )


def switches_of(text: str) -> tuple[int, float]:
    """1@05:00 -> (1, 300): leaf switches at most, and s that the job waits for them; none: (0, 0). Raises ValueError."""
    count, _, wait = text.partition("@")
    return (int(count), seconds(wait) if wait else inf) if count else (0, 0.0)


def types_of(text: str) -> dict[str, int]:
    """gpu:a100:2, gres/gpu:v100=1, a100:2 -> how many GPUs of each type are named; MIG profiles are types. Numbers alone name
    none."""
    types: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.replace("=", ":").removeprefix("gres:").removeprefix("gres/").split(":")
        words = words[1:] if words[0] == "gpu" else words if "gpu" not in text else []
        if words and words[0] and not words[0].isdigit():
            types[words[0]] = types.get(words[0], 0) + (int(words[1]) if len(words) > 1 and words[1].isdigit() else 1)
    return types


def by_accounting(asked: dict[str, float], got: dict[str, float], cpus: int, text: str, threads: int = 1) -> tuple:
    """Return the request of a job whose line is not known. `asked`, `got`: its trackable resources; `cpus` asked for; `text`:
    ReqMem, of a node where it ends in n, else memory counts by CPU. It shares its nodes, unless it got more CPUs than it
    asked for, in whole cores of `threads` CPUs."""
    least, cpus = int(asked.get("node") or got.get("node") or 1), max(cpus, 1)
    node = memory(text) if text.endswith("n") else 0
    cpu = 0 if node else memory(text) if text.endswith("c") else int(asked.get("mem", 0)) // cpus
    cards, whole = int(asked.get("gpu", 0)), got.get("cpu", 0) > -(-cpus // threads) * threads
    if cards and got.get("node", 1) == 1:
        return 1, 1, cpus, 1, cpu, node, 0, cards, whole, *(0,) * 12
    return least, 0, cpus, 1, cpu, node, cards, 0, whole, *(0,) * 12
