"""A wheel with machine code, from the pure one: the first use of a command does not wait for a compiler.

python tools/platform_wheel.py dist/jobwise-VERSION-py3-none-any.whl [--families recommended rules slurm]

It is for this Python, this numba and this kind of processor. pip takes it where it fits, and the pure wheel elsewhere; where
the numba that is installed is another one, kernels are compiled as with the pure wheel.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

FAMILIES = ("recommended", "rules", "slurm")  # of `jobwise warm-up`
SYSTEMS = {"linux": "manylinux_2_17_{}", "darwin": "macosx_11_0_{}"}  # no library of the system is linked


def platform_wheel(pure: Path, families: tuple[str, ...] = FAMILIES) -> Path:
    """Return the path of the platform wheel, written beside the pure one."""
    system, processor = SYSTEMS.get(sys.platform), platform.machine()
    if system is None:
        raise SystemExit(f"no platform wheel is made on {sys.platform}")
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run("-m", "wheel", "unpack", "--dest", folder, pure.resolve())
        (root,) = (p for p in folder.iterdir() if p.is_dir())
        own = {
            "JOBWISE_SHIP": str(root / "jobwise" / "compiled" / "code"),
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": "",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPATH": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        _run("-m", "jobwise.cli", "warm-up", *families, env=os.environ | own, cwd=folder)
        about = next(root.glob("*.dist-info")) / "WHEEL"
        lines = [x for x in about.read_text().splitlines() if x and not x.startswith(("Tag:", "Root-Is-Purelib:"))]
        tag = f"{version}-{version}-{system.format(processor)}"
        about.write_text("\n".join([*lines, "Root-Is-Purelib: false", f"Tag: {tag}"]) + "\n")
        _run("-m", "wheel", "pack", "--dest-dir", pure.resolve().parent, root)
    (made,) = pure.parent.glob(f"*-{tag}.whl")
    return made


def _run(*arguments: object, **more: object) -> None:
    subprocess.run([sys.executable, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, **more)  # type: ignore[call-overload]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pure", type=Path, help="the pure wheel")
    parser.add_argument("--families", nargs="+", default=FAMILIES, help="of `jobwise warm-up`, whose kernels are compiled")
    asked = parser.parse_args()
    made = platform_wheel(asked.pure, tuple(asked.families))
    print(f"written: {made} ({made.stat().st_size / 1e6:.1f} MB)")
