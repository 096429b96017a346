"""Logs by name: a catalogue of the Parallel Workloads Archive, downloaded once into a cache.

The archive (https://www.cs.huji.ac.il/labs/parallel/workload/) asks users to acknowledge a log's contributor.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from jobwise.errors import InputError, unknown

ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
LOGS = {  # name: path below the archive
    "anl-intrepid": "l_anl_int/ANL-Intrepid-2009-1.swf.gz",
    "ctc-sp2": "l_ctc_sp2/CTC-SP2-1996-3.1-cln.swf.gz",
    "hpc2n": "l_hpc2n/HPC2N-2002-2.2-cln.swf.gz",
    "kth-sp2": "l_kth_sp2/KTH-SP2-1996-2.1-cln.swf.gz",
    "lanl-cm5": "l_lanl_cm5/LANL-CM5-1994-4.1-cln.swf.gz",
    "llnl-atlas": "l_llnl_atlas/LLNL-Atlas-2006-2.1-cln.swf.gz",
    "llnl-thunder": "l_llnl_thunder/LLNL-Thunder-2007-1.1-cln.swf.gz",
    "nasa-ipsc": "l_nasa_ipsc/NASA-iPSC-1993-3.1-cln.swf.gz",
    "ricc": "l_ricc/RICC-2010-2.swf.gz",
    "sdsc-blue": "l_sdsc_blue/SDSC-BLUE-2000-4.2-cln.swf.gz",
    "sdsc-ds": "l_sdsc_ds/SDSC-DS-2004-2.1-cln.swf.gz",
    "sdsc-sp2": "l_sdsc_sp2/SDSC-SP2-1998-4.2-cln.swf.gz",
}


def cache_folder() -> Path:
    """Return the folder of downloaded logs: $JOBWISE_CACHE, else the user's cache folder."""
    own = os.environ.get("JOBWISE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(home) / "jobwise" / "logs"


def fetch(name: str, progress: Callable[[int, int], None] | None = None, checksum: str | None = None) -> Path:
    """The file of log `name`, downloaded where the cache has it not; an interrupted download goes on where it stopped.

    `checksum`: expected SHA-256 of the file; without one, the sum of the first download is kept beside it and must
    match ever after. $JOBWISE_ARCHIVE replaces the archive's address. Raises InputError.
    """
    if name not in LOGS:
        raise unknown("log", name, LOGS)
    folder = cache_folder()
    path = folder / Path(LOGS[name]).name
    noted = path.with_name(path.name + ".sha256")
    if not path.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made: {error.strerror}; set JOBWISE_CACHE to a folder of yours") from None
        url = _safe(f"{os.environ.get('JOBWISE_ARCHIVE', ARCHIVE).rstrip('/')}/{LOGS[name]}")
        part = path.with_name(path.name + ".part")
        _download(url, part, progress)
        _check(part, checksum)
        noted.write_text(_sum(part))
        os.replace(part, path)
    expected = checksum or (noted.read_text().strip() if noted.exists() else None)
    if expected and _sum(path) != expected:
        raise InputError(f"{path}: its checksum is not {expected[:12]}…; delete it to fetch it again")
    return path


def _safe(url: str) -> str:
    """The address, which is https, or of this machine. Raises InputError."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")):
        return url
    raise InputError(f"{url}: logs are downloaded by https alone")


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check(part: Path, checksum: str | None) -> None:
    """The download is whole; otherwise it is deleted. Raises InputError."""
    try:
        with gzip.open(part) as file:
            while file.read(1 << 20):
                pass
        wrong = checksum is not None and _sum(part) != checksum
    except Exception:
        wrong = True
    if wrong:
        part.unlink()
        raise InputError(f"{part.name}: the download is damaged (checksum or compression); try again")


def _download(url: str, part: Path, progress: Callable[[int, int], None] | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            _safe(reply.geturl())  # a redirection may lead elsewhere
            if have and reply.status != 206:
                have = 0  # the server starts from the beginning
            total = have + int(reply.headers.get("Content-Length") or 0)
            with part.open("ab" if have else "wb") as file:
                while chunk := reply.read(1 << 16):
                    file.write(chunk)
                    have += len(chunk)
                    if progress:
                        progress(have, total)
        if total and have < total:
            raise InputError(f"{url}: the connection broke after {have} of {total} bytes; run again to go on from there")
    except urllib.error.HTTPError as error:
        if error.code != 416:  # where nothing is left to fetch
            raise InputError(f"{url}: {error.code} {error.reason}") from None
    except (http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"{url}: cannot be downloaded ({reason}); fetch it by hand into {part.parent}, or run again") from None
