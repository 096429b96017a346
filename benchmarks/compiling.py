"""How many functions each family of `jobwise warm-up` compiles behind those before it, and how long that takes, from nothing.

python -m benchmarks.compiling      prints the table `ABOUT` of jobwise/cli/warm_up.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time

from jobwise.cli.warm_up import FAMILIES


def main() -> None:
    """Compile family by family into one new cache, and count."""
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"XDG_CACHE_HOME": cache}
        for name in FAMILIES:
            begun = time.monotonic()
            words = [sys.executable, "-m", "jobwise.cli", "warm-up", name, "--workers", "1"]
            said = subprocess.run(words, env=env, check=True, capture_output=True, text=True).stderr
            count = re.search(r"(\d+) functions compiled", said)[1]
            print(f'    "{name}": {count},  # {time.monotonic() - begun:.0f} s', flush=True)


if __name__ == "__main__":
    main()
