"""Logs of other systems: what they are, and what would make them readable. None of them is read."""

from __future__ import annotations

import re
from typing import NamedTuple

HEAD = 4096  # letters that are enough to know it by
TABLE = "convert it to SWF, or add a reader (docs/add-a-workload.md)"


class ForeignLog(NamedTuple):
    """A kind of log: a pattern of how it begins, what it is, and what would be right."""

    begins: str
    name: str
    instead: str


KINDS = (
    ForeignLog(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Z];[\w.\[\]-]+;", "a PBS or Torque accounting log", TABLE),
    ForeignLog(r'"JOB_(?:FINISH|NEW|START)" "', "an LSF lsb.acct file", TABLE),
    ForeignLog(r"(?:#.*\n)*[^:\s]+:[^:\s]+:\w+:\w+:[^:]*:\d+:", "a Grid Engine accounting file", TABLE),
    ForeignLog(r'\s*\{[^{]*"jobs"\s*:\s*\[\s*\{[^}]*"(?:job_id|account|allocation_nodes)"', "Slurm's JSON (sacct or squeue)",
         "put it into a folder as sacct.json, and read that: jobwise slurm site FOLDER"),
    ForeignLog(r'\s*\[\s*\{\s*"status"\s*:|\s*\[\s*\{[^}]*"attempts"', "Philly's cluster_job_log in JSON",
         "its table philly_*.csv of the trace's readers is read"),
    ForeignLog(r"task_id\thash\tnative_id", "a Nextflow trace", "export the workflow as WfFormat JSON (WfCommons)"),
    ForeignLog(r"(?=.*\bgpu)[\w ]+(?:,[\w ]+){4,}\n", "a table of GPU jobs in columns that are not known", TABLE),
    ForeignLog(r"[A-Za-z_][\w ]*(?:,[A-Za-z_][\w .]*){3,}\r?\n", "a CSV table in columns that are not known", TABLE),
)  # fmt: skip


def known(head: str) -> str:
    """Return what a text of another system is by how it begins, in words; "" for one that is not known."""
    kind = next((k for k in KINDS if re.match(k.begins, head)), None)
    return f"is {kind.name}, which is not read; {kind.instead}" if kind else ""
