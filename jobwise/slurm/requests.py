"""What a job asked for: from the line it was submitted with, else from what accounting says that it asked for and got."""

from __future__ import annotations

import shlex

import numpy as np

from jobwise.errors import InputError
from jobwise.site import ask_dtype

SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "C": "constraint", "p": "partition", "d": "dependency",
         "w": "nodelist", "x": "exclude", "a": "array", "b": "begin", "G": "gpus", "t": "time", "q": "qos", "A": "account"}  # fmt: skip
FLAGS = ("parsable", "exclusive", "wait", "hold", "requeue", "no-requeue", "overcommit", "contiguous", "spread-job")
FLAGS += ("quiet", "verbose", "test-only", "ignore-pbs", "use-min-nodes", "reboot")


def options(line: str) -> dict[str, str]:
    """The options of a line `sbatch …` (or salloc, srun) up to the script; {} where it cannot be read."""
    try:
        words = shlex.split(line)
    except ValueError:
        return {}
    found, i = {}, 1
    while i < len(words):
        word = words[i]
        i += 1
        if word.startswith("--"):
            key, has, value = word[2:].partition("=")
            if not has and key not in FLAGS and i < len(words):
                value, i = words[i], i + 1
            found[key] = value or "yes"
        elif word.startswith("-") and len(word) > 1:
            key, value = SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            if not value and word[1] not in "HkIQsv" and i < len(words):
                value, i = words[i], i + 1
            found[key] = value or "yes"
        else:
            break
    return found


def gpus(text: str) -> int:
    """gpu:2, gpu:a100:2, gres:gpu:2, a100:2, 2: how many."""
    count = 0
    for part in text.removeprefix("gres:").split(","):
        words = part.split(":")
        if words[0] not in ("gpu", "gres/gpu") and len(words) > 1 and "gpu" in text:
            continue
        count += int(words[-1]) if words[-1].isdigit() else 1
    return count


def asked(line: str, tres: dict[str, float], nodes: int, cpus: int, got: int, by_node: int, default: tuple[int, int]) -> tuple:
    """A row of ask_dtype, its node set left 0. `tres`: what was asked for; `nodes`: of the allocation; `cpus` asked for, `got`;
    `by_node` MiB of a node where accounting says so; `default` MiB (of a CPU, of a node). Raises ValueError."""
    from jobwise.slurm.site import memory

    o = options(line)
    if not o:  # accounting alone
        least = int(tres.get("node", nodes) or 1)
        total = int(tres.get("mem", 0))
        cards = int(tres.get("gres/gpu", 0))
        whole = got > cpus
        tasks = max(cpus, 1)
        return (least, 0, tasks, 1, 0 if by_node else total // max(tasks, 1), by_node, cards, 0, whole, 0, 0)
    low, _, high = o.get("nodes", "").partition("-")
    least = int(low or 0)
    most = int(high or low or 0)
    each = int(o.get("cpus-per-task", 1))
    per_node = int(o.get("ntasks-per-node", 0))
    tasks = int(o.get("ntasks", 0)) or per_node * max(least, 1) or max(least, 1)
    mem_cpu = memory(o["mem-per-cpu"]) if "mem-per-cpu" in o else 0
    mem_node = memory(o["mem"]) if "mem" in o else 0
    if not (mem_cpu or mem_node):
        mem_cpu, mem_node = default
    cards = gpus(o["gpus"]) if "gpus" in o else gpus(o["gpus-per-task"]) * tasks if "gpus-per-task" in o else 0
    cards_node = gpus(o["gres"]) if "gpu" in o.get("gres", "") else gpus(o["gpus-per-node"]) if "gpus-per-node" in o else 0
    if cards and (tasks == 1 or most == 1):
        cards, cards_node = 0, cards
    nice = o.get("nice", "0")
    whole = "exclusive" in o and o["exclusive"] != "user"
    return (least, most, tasks, each, mem_cpu, mem_node, cards, cards_node, whole, 0, 100 if nice == "yes" else int(nice))
