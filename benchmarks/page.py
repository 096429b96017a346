"""A hundred readers of the page at once: is a cycle slower with them? How soon do they hear of it?

python -m benchmarks.page [--readers 100] [--seconds 60] [--jobs 500]     # writes benchmarks/PAGE.md

A shadow follows a cluster that lies in a folder (so many jobs wait; ten come, ten go), a cycle every two seconds, without
readers, with readers, and so in turns. Readers are in a process of their own: each holds a stream of events and, as the page
does, asks for the state and for the first 25 jobs after each event.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.markdown import table
from benchmarks.steer import Memory
from jobwise.live.cycle import Cycle
from jobwise.live.shadow import Shadow
from jobwise.live.sinks.page.board import Board
from jobwise.live.sinks.page.guards import Guards
from jobwise.live.sinks.page.server import serving
from jobwise.live.sinks.page.state import state_of
from jobwise.policies.names import resolve
from jobwise.report.sections import made

EVERY_S, TURNS, POLICY = 2.0, 2, "saf+easy"


async def _asked(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    out = await reader.read()
    writer.close()
    return out


async def _reader(port: int, late: list[float], end: float) -> None:
    """Follow the events until `end`; after each ask as the page does. `late`: s from a cycle's end to its jobs here."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    try:
        while (left := end - time.time()) > 0:
            try:
                line = await asyncio.wait_for(reader.readline(), left)
            except TimeoutError:
                break
            if not line.startswith(b"data:"):
                continue
            now = json.loads((await _asked(port, "/api/now")).split(b"\r\n\r\n", 1)[1])
            await _asked(port, "/api/jobs?limit=25")
            late.append(time.time() - now["time"])
    finally:
        writer.close()


def _readers(port: int, count: int, seconds: float, out) -> None:
    """Run the readers; hands over how late each event was (s)."""
    late: list[float] = []

    async def run() -> None:
        await asyncio.gather(*(_reader(port, late, time.time() + seconds) for _ in range(count)))

    asyncio.run(run())
    out.put(late)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=500)
    given = parser.parse_args()
    took: dict[bool, list[float]] = {False: [], True: []}
    late: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        slurm, board, shadow = Memory(Path(folder), given.jobs), Board(), Shadow()
        cycle = Cycle(slurm, resolve(POLICY), [shadow])
        with serving(board, Guards(), "127.0.0.1:0") as where:
            port = int(where.rpartition(":")[2])
            for turn in range(2 * TURNS + 1):
                read, results = turn % 2 == 0 and turn > 0, multiprocessing.Queue()
                process = multiprocessing.Process(target=_readers, args=(port, given.readers, given.seconds, results))
                if read:
                    process.start()
                end = time.monotonic() + (given.seconds if turn else 3 * EVERY_S)
                while time.monotonic() < end:
                    slurm.step()
                    begun = time.monotonic()
                    look = cycle.once()
                    state = state_of(look, look.predicted, shadow)
                    board.publish(state.model_copy(update={"time": time.time()}), look.predicted)
                    if turn:  # the first is to warm up
                        took[read].append(time.monotonic() - begun)
                    time.sleep(max(EVERY_S - (time.monotonic() - begun), 0.0))
                if read:
                    late += results.get()
                    process.join()
    row = lambda name, read: [name, f"{len(took[read]):,}", *(f"{1000 * np.quantile(took[read], q):.0f}" for q in (0.5, 0.9))]  # noqa: E731
    cells = [[*row("none", False), "", ""]]
    cells.append([*row(f"{given.readers:,}", True), *(f"{1000 * np.quantile(late, q):.0f}" for q in (0.5, 0.99))])
    ratio = float(np.median(took[True]) / np.median(took[False]))
    columns = ["readers", "cycles", "a cycle, ms: median", "90 %", "until a reader has it, ms: median", "99 %"]
    text = ["# Readers of the page", "", made("python -m benchmarks.page") + f": {given.jobs:,} jobs wait."]
    text += ["", (__doc__ or "").split("\n\n")[2].strip(), "", *table(columns, cells), ""]
    text += [f"A cycle takes {ratio:.2f} times as long with readers (median); they heard of {len(late):,} events."]
    (Path(__file__).parent / "PAGE.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
