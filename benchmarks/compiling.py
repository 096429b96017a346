"""How many functions each family of `jobwise warm-up` compiles behind those before it, and how long that takes, from nothing.

python -m benchmarks.compiling      prints the table `ABOUT` of jobwise/cli/warm_up.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jobwise.cli.warm_up import FAMILIES


def main() -> None:
    """Compile family by family into one new cache, and count."""
    with tempfile.TemporaryDirectory() as cache:
        env, before = os.environ | {"XDG_CACHE_HOME": cache}, 0
        for name in FAMILIES:
            begun = time.monotonic()
            words = [sys.executable, "-m", "jobwise.cli", "warm-up", name, "--workers", "1"]
            subprocess.run(words, env=env, check=True, stderr=subprocess.DEVNULL)
            count = sum(1 for _ in Path(cache).rglob("*.nbc"))
            print(f'    "{name}": {count - before},  # {time.monotonic() - begun:.0f} s', flush=True)
            before = count


if __name__ == "__main__":
    main()
