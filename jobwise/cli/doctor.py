"""`jobwise doctor`: what of this installation works, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from jobwise import compiled
from jobwise.cli.tables import print_json, print_table, say
from jobwise.workloads.catalogue import cache_folder

SLURM = ("sinfo", "squeue", "scontrol", "sacct", "sacctmgr", "sprio", "sdiag")  # that jobwise reads a cluster by
WAIT_S = 5.0  # for a program to say its version


@dataclass(frozen=True)
class Finding:
    """A thing that was looked at. `ok`: does it work? `mend`: the command that makes it work, or what it is for."""

    what: str
    state: str
    ok: bool = True
    needed: bool = False  # nothing works without it
    mend: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Check this installation. It says what works, what is missing, and the command that mends it. Exit code 1: a part that
    every command needs does not work.

    Examples:
        jobwise doctor
    """
    findings = [*_python(), *_kernels(), *_extras(), *_machine(), _slurm()]
    broken = [f for f in findings if f.needed and not f.ok]
    if as_json:
        print_json({"works": not broken, "findings": [vars(f) for f in findings]})
    else:
        rows = [[f.what, "ok" if f.ok else "MISSING" if f.needed else "-", f.state, "" if f.ok else f.mend] for f in findings]
        print_table("", ["part", "", "what is there", "to mend it"], rows, left=4)
        for f in broken:
            say(f"{f.what}: {f.state}; {f.mend}")
        say("Not all that jobwise needs is here." if broken else "Everything that jobwise needs is here.")
    if broken:
        raise typer.Exit(1)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in re.findall(r"\d+", version)[:3])


def _requirements() -> list[tuple[str, str, str]]:
    """(package, least version, extra) of what jobwise requires; extra "": always."""
    packages = []
    for line in metadata.requires("jobwise") or []:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        least, extra = re.search(r">=\s*([0-9.]+)", line), re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        if name and name[0] != "jobwise":
            packages.append((name[0], least[1] if least else "", extra[1] if extra else ""))
    return packages


def _lacking(name: str, least: str) -> str:
    """What is wrong with a package; "" where nothing is."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return name
    return f"{name} {version} (at least {least})" if _numbers(version) < _numbers(least) else ""


def _python() -> list[Finding]:
    new = sys.version_info >= (3, 11)
    out = [Finding("Python", f"{platform.python_version()}, {sys.platform}", new, True, "Python 3.11 or later is needed")]
    out.append(Finding("jobwise", f"{metadata.version('jobwise')}, in {Path(__file__).parent.parent}"))
    base = [(name, least) for name, least, extra in _requirements() if not extra]
    lacking = [x for name, least in base if (x := _lacking(name, least))]
    state = ", ".join(lacking) or ", ".join(f"{n} {metadata.version(n)}" for n in ("numpy", "numba"))
    return [*out, Finding("packages", state, not lacking, True, "pip install --upgrade jobwise")]


def _kernels() -> list[Finding]:
    from jobwise.compiled.shipped import count

    way = "compiled by numba's own njit" if compiled.NJIT else "compiled"
    if code := count():
        way = f"{code:,} came with the package, others are {way}"
    if numba_off := os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        way = "NUMBA_DISABLE_JIT is set: they run as Python, a hundred times slower"
    if not compiled.cache.FOLDER:
        mend = "NUMBA_CACHE_DIR=FOLDER, a folder of your own that nobody else may write to"
        return [Finding("kernels", f"{way}; they cannot be kept: every command compiles anew", False, False, mend)]
    files = [f for f in Path(compiled.cache.FOLDER).rglob("*") if f.is_file()]
    state = f"{way}; {len(files):,} files, {sum(f.stat().st_size for f in files) / 1e6:,.0f} MB in {compiled.cache.FOLDER}"
    return [Finding("kernels", state, bool(code or files) and not numba_off, False, "jobwise warm-up" if not numba_off else "")]


def _extras() -> list[Finding]:
    """Return a finding for each optional extra: which packages are missing, or which versions are there."""
    needs: dict[str, list[tuple[str, str]]] = {}
    for name, least, extra in _requirements():
        if extra and not extra.startswith("dev"):
            needs.setdefault(extra, []).append((name, least))
    out = []
    for extra, packages in needs.items():
        lacking = [x for name, least in packages if (x := _lacking(name, least))]
        there = ", ".join(f"{n} {metadata.version(n)}" for n, _ in packages if not _lacking(n, ""))
        state = f"missing: {', '.join(lacking)}" if lacking else there
        mend = f"pip install 'jobwise[{extra}]'"
        out.append(Finding(f"extra {extra}", state, ok=not lacking, needed=False, mend=mend))
    return out


def _machine() -> list[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30 if hasattr(os, "sysconf") else 0.0
    folder = cache_folder()
    logs = [f for f in folder.glob("*") if f.is_file()] if folder.is_dir() else []
    size = sum(f.stat().st_size for f in logs) / 1e6
    return [
        Finding("machine", f"{cores} cores" + (f", {memory:,.0f} GiB" if memory else "")),
        Finding("public logs", f"{len(logs)} fetched, {size:,.0f} MB in {folder}"),
    ]


def _slurm() -> Finding:
    missing = [c for c in SLURM if shutil.which(c) is None]
    mend = "a node where Slurm's clients are; or its output in files: jobwise slurm site"
    if len(missing) == len(SLURM):
        return Finding("Slurm", "no client of it here: what is live is not, logs and simulations are", False, False, mend)
    version = "sinfo is missing" if "sinfo" in missing else _version("sinfo")
    state = version + (f"; missing: {', '.join(missing)}" if missing else "")
    return Finding("Slurm", state, version.startswith("slurm") and not missing, False, mend)


def _version(program: str) -> str:
    """What a program of Slurm says of its version, or why it does not."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=WAIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return f"{program} does not answer"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().split("\n")
    return lines[-1] if lines[-1] else f"{program} says nothing"
