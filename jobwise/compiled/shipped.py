"""Machine code that a platform wheel brings: kernels compiled for any processor of a kind, for one Python and one numba.

`tools/platform_wheel.py` makes it. It is read only where everything that it depends on is the same, sources of kernels
included; otherwise kernels are compiled at first use, as with the pure wheel. The schedules are the same.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
# what kernels are made of: themselves, each other, the constants and dtypes that they use
SOURCES: tuple[str, ...] = ("sim", "compiled", "worlds", "jobs.py", "cluster.py", "site.py")
SOURCES += (
    "forecast/runtimes.py",
    "forecast/online.py",
    "report/export.py",
    "workloads/lublin.py",
    "starts/bags.py",
    "streaming/sums.py",
)
NO_KERNELS = ("policy.py", "spec.py")  # of worlds: no kernel is made of them


def sources() -> list[Path]:
    """Return the files that kernels are made of."""
    files = [f for name in SOURCES for f in (sorted((PACKAGE / name).rglob("*.py")) or [PACKAGE / name])]
    return [f for f in files if f.name not in NO_KERNELS]


def kind() -> str:
    """Return what machine code depends on beside the sources: Python, numba, llvmlite, system and kind of processor."""
    versions = [f"{name}{metadata.version(name)}" for name in ("numba", "llvmlite")]
    return "-".join([f"py{sys.version_info[0]}{sys.version_info[1]}", *versions, sys.platform, platform.machine()])


DIGEST = hashlib.sha1(b"".join(f.read_bytes() for f in sources())).hexdigest()[:12]
MAKING = os.environ.get("JOBWISE_SHIP", "")  # a folder that machine code is put into, to be shipped
FOLDER = Path(MAKING or PACKAGE / "compiled" / "code") / f"{DIGEST}-{kind()}"


def load(name: str, *key) -> bytes | None:
    """Return what was kept under a name and a key, or None; nothing while such code is made."""
    if MAKING:
        return None
    try:
        return lzma.decompress(_file(name, key).read_bytes())
    except (OSError, lzma.LZMAError):
        return None


def save(data: bytes, name: str, *key) -> None:
    """Keep something where machine code is made to be shipped."""
    if MAKING:
        FOLDER.mkdir(parents=True, exist_ok=True)
        file = _file(name, key)
        part = file.with_suffix(f".{os.getpid()}")  # several processes may compile the same function
        part.write_bytes(lzma.compress(data, preset=9))
        part.replace(file)


def count() -> int:
    """Return how many compiled functions came with this package, for this Python, numba and processor."""
    return 0 if MAKING else len([*FOLDER.glob("*.xz")])


def _file(name: str, key) -> Path:
    return FOLDER / f"{hashlib.sha1(repr((name, key)).encode()).hexdigest()[:20]}.xz"
