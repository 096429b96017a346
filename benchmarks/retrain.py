"""Learning on, round by round, on logs: does a policy that is trained anew win on the last weeks?

python -m benchmarks.retrain LOG… [--system search] [--preset small] [--rounds 6]     # writes benchmarks/RETRAIN.md

Each log is taken as what accounting would have told at so many moments, a fiftieth of the log apart, from its middle on. The
first policy is trained on the first half of the log; at each moment `jobwise slurm retrain` does a round with its usual
settings.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import jobwise as jw
from benchmarks.markdown import table
from jobwise.live.retrain import retrain
from jobwise.report.sections import made
from jobwise.systems import configure

FIRST, STEP = 0.5, 0.02  # shares of the log


def rounds(source: str, system: str, preset: str, count: int) -> list[list[str]]:
    """The rows of a log's rounds."""
    log, out = jw.open_log(source), []
    with tempfile.TemporaryDirectory() as folder:
        half, mine = log.take(slice(0, int(FIRST * len(log)))), Path(folder) / "mine"
        configure(system, half, preset).train(half, mine)
        for k in range(count):
            ended = log.take(slice(0, int((FIRST + STEP * k) * len(log))))
            x = retrain(Path(folder) / "learnt", ended, str(mine))
            last = max((n for n in x.scores if n not in ("new", str(mine))), key=lambda n: int(n[1:]), default="")
            scores = [f"{x.scores[n]:.2f}" if n else "" for n in ("new", last, str(mine))]
            waits = [f"{x.longest[n] / 3600:.0f}" for n in ("new", str(mine))]
            confirmed = f"G{x.confirmed}" if x.confirmed >= 0 else "no"
            ranks = f"G{x.serves}" if x.serves >= 0 else "the first"
            out.append([log.name if not k else "", f"{x.learnt:,}", f"{x.judged:,}", *scores, *waits, confirmed, ranks])
            print(out[-1], flush=True)
    return out


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--system", default="search")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--rounds", type=int, default=6)
    asked = parser.parse_args()
    rows = [row for source in asked.logs for row in rounds(source, asked.system, asked.preset, asked.rounds)]
    columns = ["log", "trained on", "judged on", "slowdown: new policy", "last generation", "first policy"]
    columns += ["longest wait, h: new policy", "first policy", "confirmed", "ranks"]
    text = [
        "# Learning on",
        "",
        f"{made('python -m benchmarks.retrain LOG…')}; system {asked.system}, preset {asked.preset}.",
        "",
        (__doc__ or "").split("\n\n")[2].strip(),
        "",
    ]
    (Path(__file__).parent / "RETRAIN.md").write_text("\n".join([*text, *table(columns, rows)]) + "\n")


if __name__ == "__main__":
    main()
