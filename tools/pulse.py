"""Run a command, and while it is silent say every few seconds that it goes on: python tools/pulse.py COMMAND …"""

import os
import select
import subprocess
import sys
import time

SILENCE_S = 4


def run(command: list[str], silence_s: float = SILENCE_S) -> int:
    """Run the command, forward what it prints, and return its exit status."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        out = process.stdout.fileno()
        while True:
            if not select.select([out], [], [], silence_s)[0]:
                print(f"... {time.monotonic() - begin:.0f} s", flush=True)
                continue
            text = os.read(out, 65536)
            if not text:
                break
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
