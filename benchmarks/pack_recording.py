"""Pack a recording of a real Slurm as a test reads it: `python -m benchmarks.pack_recording FOLDER NAME.tar.xz`.

FOLDER is one that `python -m benchmarks.check_slurm --keep` has kept (…/r1/c7/told). Of slurmctld's log the lines stay that
`jobwise slurm check` reads; the cluster's folder becomes /var/slurm, and its host ctl.
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from jobwise.slurm.read.controller_log import EVENTS, LINE, LOG

HOME = {"SlurmctldHost": r"([^\s(]+)", "StateSaveLocation": r"(\S+)/state"}  # of the machine, in scontrol_config


def neutral(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of a recording, by name, with nothing of its machine in them."""
    known = (folder / "scontrol_config.txt").read_text()
    host, home = (re.search(rf"^{key}\S*\s*= {value}", known, re.MULTILINE) for key, value in HOME.items())
    for file in sorted(folder.iterdir()):
        text = file.read_text(errors="replace")
        text = "".join(x for x in text.splitlines(keepends=True) if _is_read(x)) if file.name == LOG else text
        text = text.replace(home[1], "/var/slurm") if home else text
        yield file.name, re.sub(rf"\b{re.escape(host[1])}\b", "ctl", text) if host else text


def _is_read(line: str) -> bool:
    of = LINE.match(line)
    return of is not None and any(re.search(x, of[2]) for x in EVENTS.values())


def pack(folder: Path, archive: Path) -> None:
    """Write a recording into an archive, the same bytes each time."""
    name = archive.name.removesuffix(".tar.xz")
    with tarfile.open(archive, "w:xz", preset=9) as out:
        for file, text in neutral(folder):
            entry, data = tarfile.TarInfo(f"{name}/{file}"), text.encode()
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].endswith(".tar.xz"):
        sys.exit("usage: python -m benchmarks.pack_recording FOLDER NAME.tar.xz")
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
