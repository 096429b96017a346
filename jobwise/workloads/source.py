"""Read the workload of a name on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.extensions import imported
from jobwise.workload import Workload
from jobwise.workloads import catalogue, cwl, lines, readers, streams, swf, wdl, wfformat
from jobwise.workloads.logfile import LogFile
from jobwise.workloads.transform import pooled
from jobwise.workloads.workflows import Workflow, from_jobs
from jobwise.worlds.spec import generated

POOLED = "pooled:"  # in front of the name of a log


def open_workflow(path: str | Path, counts: dict[str, int] | None = None) -> Workflow:
    """Read a workflow.

    Parameters
    ----------
    path : str or Path
        CWL (.cwl), WDL (.wdl), WfFormat JSON, a list of commands (.commands), or a log in SWF whose jobs name preceding ones.
    counts : dict of str to int, optional
        How often scattered parts of CWL and WDL run, by name.

    Returns
    -------
    Workflow

    Raises
    ------
    InputError
        The file cannot be read, or `counts` names something that is not scattered.
    """
    path = Path(path)
    if (suffix := cwl.apart(path)[0].suffix) in (".cwl", ".wdl"):
        return (cwl if suffix == ".cwl" else wdl).read(path, counts)
    if counts:
        raise InputError(f"{path}: nothing in it is scattered; counts are for CWL and WDL")
    if path.suffix == ".commands":
        return lines.read(path)
    return wfformat.read(path) if _is_workflow(path) else from_jobs(swf.read_swf(path))


def _is_workflow(path: Path) -> bool:
    """Return whether the name of a file is that of a workflow."""
    return cwl.apart(path)[0].suffix in (".cwl", ".wdl", ".commands") or ".json" in path.suffixes[-2:]


def _holds_workflow(path: Path) -> bool:
    """Return whether a file is a workflow; JSON is one where it has a workflow's keys, or cannot be read."""
    if ".json" not in path.suffixes[-2:]:
        return True
    document = LogFile(str(path)).document
    return document is None or (isinstance(document, dict) and bool({"workflow", "steps", "schemaVersion"} & set(document)))


def _flows(source: str, procs: int) -> Workload:
    """A workflow, or a stream of the workflows in a folder."""
    path = Path(source)
    if not path.is_dir():
        return streams.stream([flow := open_workflow(path)], cluster=procs, name=flow.name)
    files = sorted(f for f in path.iterdir() if _is_workflow(f))
    if not files:
        named = path / "sacct.txt"
        own = f"; its log is {named}, and jobwise slurm site {path} reads all of it" if named.is_file() else ""
        raise InputError(f"{path}: is a folder without workflows; a log file is expected{own}")
    flows = [open_workflow(f) for f in files]
    return streams.arrivals(flows, 200, procs, name=path.resolve().name)


def open_log(
    source: str,
    procs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    machine: Cluster | None = None,
    form: dict[str, str] | None = None,
) -> Workload:
    """Read a job log of any known format.

    The formats are those of `jobwise.workloads.readers`: SWF, sacct (text, JSON), PBS, LSF, Grid Engine, Flux, HTCondor, OAR,
    Kueue, Batsim, Parquet, tables of published data or with columns that the user names, and those of other packages.
    A workflow is a log, too (`open_workflow`), and so is a folder of them: a stream of 200 drawn from them at a load of 0.9.

    Parameters
    ----------
    source : str
        A file; ``-`` for standard input; a name of the catalogue such as ``sdsc-sp2``; generated jobs with the number of the
        unseen jobset, such as ``cush:7``; ``pooled:LOG`` for the jobs of a log on one pool of each of its cluster's
        resources.
    procs : int, optional
        Processors of the machine, in place of what the log says; of workflows 64 by default.
    progress : callable, optional
        Called with (bytes, of bytes) while a log is read, or, of the catalogue, fetched.
    machine : Cluster, optional
        GPU racks that the jobs are for.
    form : dict of str to str, optional
        What the file does not tell: ``columns`` (``"submit=COLUMN,processors=COLUMN"``, a TOML file, or a map that ships),
        ``fields`` (names of the columns of a table without a line of names), ``cluster`` (whose jobs are wanted).

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        The log cannot be read.
    """
    if source.startswith(POOLED):
        return pooled(open_log(source.removeprefix(POOLED), procs, progress, machine, form))
    if form and (Path(source).is_dir() or not (source == "-" or Path(source).is_file())):
        raise InputError(f"{source}: --{next(iter(form))} says something of a file of jobs, and this is none")
    made = re.fullmatch(r"([\w-]+)(?::(\d+))?", source)
    if made and (where := generated().get(made[1])):
        if procs is not None:
            raise InputError(f"{source}: generated jobs come with their cluster; --procs is for logs of processors")
        return imported(where)(made[1], int(made[2] or 0), machine)
    if source != "-" and not Path(source).exists() and "/" not in source and "." not in source:
        if source not in catalogue.LOGS:
            raise unknown("file or log", source, [*catalogue.LOGS, *generated()])
        source = str(catalogue.fetch(source, progress))
    if source != "-" and (Path(source).is_dir() or (_is_workflow(Path(source)) and _holds_workflow(Path(source)))):
        return _flows(source, procs or 64)
    return readers.read(LogFile(source, procs, machine, report=progress, **(form or {})))
