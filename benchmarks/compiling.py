"""How many functions each family of `jobwise warm-up` compiles behind those before it, and how long that takes, from nothing.

python -m benchmarks.compiling      prints the tables `ABOUT` and `WHOLE` of jobwise/cli/warm_up.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from jobwise.cli.warm_up import FAMILIES


def main() -> None:
    """Compile family by family into one new cache, and count."""
    with tempfile.TemporaryDirectory() as cache:
        for name in FAMILIES:
            count, seconds = _compiled(cache, name, "--workers", "1")
            print(f'    "{name}": {count},  # {seconds:.0f} s', flush=True)
    with tempfile.TemporaryDirectory() as cache:
        count, seconds = _compiled(cache)
        print(f"WHOLE = {count}  # {seconds:.0f} s")


def _compiled(cache: str, *words: str) -> tuple[int, float]:
    """(functions that `warm-up` compiles into this cache, s)."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "jobwise.cli", "warm-up", *words]
    env = os.environ | {"XDG_CACHE_HOME": cache}
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stderr
    return int(re.findall(r"(\d+) functions compiled", said)[0]), time.monotonic() - begun


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_known_args()
    main()
