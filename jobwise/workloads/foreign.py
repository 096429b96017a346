"""Logs of other systems: what they are, and what would make them readable. None of them is read."""

from __future__ import annotations

import re
from typing import NamedTuple

COLUMNS = "say what they mean: --columns submit=COLUMN,start=COLUMN,end=COLUMN,processors=COLUMN (docs/logs.md)"
TABLE = "convert it to SWF, or add a reader (docs/add-a-workload.md)"


class ForeignLog(NamedTuple):
    """A kind of log: a pattern of how it begins, what it is, and what would be right."""

    begins: str
    name: str
    instead: str


KINDS = (
    ForeignLog(r'\s*\[\s*\{\s*"status"\s*:|\s*\[\s*\{[^}]*"attempts"', "Philly's cluster_job_log in JSON",
         "its table philly_*.csv of the trace's readers is read"),
    ForeignLog(r"task_id\thash\tnative_id", "a Nextflow trace", "export the workflow as WfFormat JSON (WfCommons)"),
    ForeignLog(r"pod_id,workload_id,server_id", "Alibaba's GPU trace of 2026, which has neither submits nor starts",
         "its spot trace (job_info_df) is read"),
    ForeignLog(r"time,type,(?:collection|instance)_id|\d+,\d*,\d+,\d+,\d,", "Google's Borg events, not jobs", TABLE),
    ForeignLog(r"\s*<\?xml", "XML", TABLE),
    ForeignLog(r"\s*[{\[]", "JSON of no kind that is known (Slurm, Flux, HTCondor, OAR, Kueue, Batsim are)", TABLE),
    ForeignLog(r"(?=.*\bgpu)[\w ]+(?:,[\w ]+){4,}\n", "a table of GPU jobs in columns that are not known", COLUMNS),
    ForeignLog(r"[A-Za-z_\"][\w \"]*(?:[,;\t][A-Za-z_\"][\w .\"]*){3,}\r?\n", "a table in columns that are not known", COLUMNS),
)  # fmt: skip
UNKNOWN = (
    "is in no format that jobwise knows (SWF, sacct, Slurm's JSON, PBS, LSF, Grid Engine, Flux, HTCondor, OAR, Kueue, Batsim, "
    "tables); --columns says what the columns of a table mean"
)


def known(head: str) -> str:
    """Return what a text of another system is by how it begins, in words; "" for one that is not known."""
    kind = next((k for k in KINDS if re.match(k.begins, head)), None)
    return f"is {kind.name}, which is not read; {kind.instead}" if kind else ""
