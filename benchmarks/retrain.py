"""Learning on, round by round, on logs: do new trees win on the last weeks?

python -m benchmarks.retrain LOG… [--rounds 6]     # writes benchmarks/RETRAIN.md

Each log is taken as what accounting would have told at so many moments, a fiftieth of the log apart, from its middle on; at
each `jobwise slurm retrain` does a round with its usual settings, against `jobwise`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import jobwise as jw
from benchmarks.markdown import table
from jobwise.report.sections import made
from jobwise.slurm.retrain import retrain

RULE = "jobwise"


def rounds(source: str, count: int) -> list[list[str]]:
    """The rows of a log's rounds."""
    log, out = jw.open_log(source), []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(count):
            x = retrain(Path(folder), log.take(slice(0, int((0.5 + 0.02 * k) * len(log)))), RULE)
            last = max((n for n in x.scores if n not in ("new", RULE)), key=lambda n: int(n[1:]), default="")
            scores = [f"{x.scores[n]:.2f}" if n else "" for n in ("new", last, RULE)]
            waits = [f"{x.longest[n] / 3600:.0f}" for n in ("new", RULE)]
            confirmed = f"G{x.confirmed}" if x.confirmed >= 0 else "no"
            ranks = f"G{x.serves}" if x.serves >= 0 else RULE
            out.append([log.name if not k else "", f"{x.learnt:,}", f"{x.judged:,}", *scores, *waits, confirmed, ranks])
            print(out[-1], flush=True)
    return out


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    rows = [row for source in given.logs for row in rounds(source, given.rounds)]
    columns = ["log", "learnt from", "judged on", "slowdown: new trees", "last generation", "jobwise"]
    columns += ["longest wait, h: new trees", "jobwise", "confirmed", "ranks"]
    text = [
        "# Learning on",
        "",
        made("python -m benchmarks.retrain LOG…") + ".",
        "",
        (__doc__ or "").split("\n\n")[2].strip(),
        "",
    ]
    (Path(__file__).parent / "RETRAIN.md").write_text("\n".join([*text, *table(columns, rows)]) + "\n")


if __name__ == "__main__":
    main()
