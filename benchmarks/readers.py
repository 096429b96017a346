"""How fast logs are read, and in how much memory: rows a second and the most memory, by format and number of rows.

python -m benchmarks.readers [--rows 1000000 10000000] [--only swf sacct ...]

Each reading is a process of its own. Writes benchmarks/READERS.md, generated.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.markdown import page, table
from jobwise.report.sections import made
from jobwise.workloads.source import open_log

PAGE = Path(__file__).with_name("READERS.md")
PART = 100_000  # rows that are written at once
COLUMNS = "submit=submit,start=start,end=end,processors=n,walltime=limit,user=user"
HEADS = {
    "swf": "; MaxProcs: 4096\n",
    "sacct": "JobID|User|Account|Partition|QOS|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|ReqCPUS|AllocTRES\n",
    "csv": "submit,start,end,n,limit,user\n",
    "pbs": "",
    "lsf": "",
    "sge": "",
}
LINE_BY_LINE, FEW = ("pbs", "lsf", "sge"), 1_000_000  # of these no more rows are read, unless --all says so
WHAT = (
    "A process each; memory is the most that it ever had, the jobs themselves included. PBS, LSF and Grid Engine are read line "
    "by line, and slower: here a million rows of each."
)
T0 = 1_600_000_000


def _rows(kind: str, first: int, count: int) -> str:
    """Rows of a format: numbers from `first` on."""
    rng = np.random.default_rng(first)
    k = np.arange(first, first + count)
    submit = k * 10
    wait, run, n = rng.integers(0, 4000, count), rng.integers(1, 40_000, count), 2 ** rng.integers(0, 8, count)
    user, limit = rng.integers(1, 900, count), (run // 60 + 10) * 60
    every = zip(*(x.tolist() for x in (k, submit, wait, run, n, user, limit)), strict=True)
    if kind == "swf":
        return "".join(f"{i} {s} {w} {r} {n} -1 -1 {n} {t} -1 1 {u} 1 -1 1 -1 -1 -1\n" for i, s, w, r, n, u, t in every)
    if kind == "csv":
        return "".join(f"{T0 + s},{T0 + s + w},{T0 + s + w + r},{n},{t},u{u}\n" for i, s, w, r, n, u, t in every)
    out = []
    for i, s, w, r, n, u, t in every:
        a, b, c = T0 + s, T0 + s + w, T0 + s + w + r
        if kind == "sacct":
            stamps = "|".join(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(x)) for x in (a, b, c))
            out.append(f"{i}|u{u}|lab|batch|normal|COMPLETED|{stamps}|{r}|{t // 60}|{n}|{n}|cpu={n},mem=4G,node=1\n")
        elif kind == "pbs":
            text = f"user=u{u} group=lab queue=work ctime={a} qtime={a} etime={a} start={b} exec_host=n1/0*{n}"
            more = f"Resource_List.ncpus={n} Resource_List.walltime={t} session=9 end={c} Exit_status=0"
            out.append(f"03/02/2026 08:00:10;E;{i}.head;{text} {more}\n")
        elif kind == "lsf":
            usage = "5.0 0.1 0 0 -1 0 0 0 0 0 0 0 -1 0 0 0 0 0 -1"
            text = f'"JOB_FINISH" "10.1" {c} {i} 1001 3 {n} {a} 0 0 {b} "u{u}" "normal" "" "" "" "head" "/h"'
            out.append(f'{text} "" "" "" "1.2" 0 1 "{n}*n1" 64 60.0 "sim" "sleep 10" {usage} "" "lab" 0 {n} "" "" 0 0 0\n')
        else:
            usage = ":".join(["0"] * 18)
            text = f"all.q:n1:lab:u{u}:sim:{i}:sge:0:{a}:{b}:{c}:0:0:{usage}:chem:dept:smp:{n}:0"
            out.append(f"{text}:1.1:0.3:0.0:-l h_rt={t} -pe smp {n}:0.0:NONE:1.0:0:0\n")
    return "".join(out)


def written(kind: str, rows: int, folder: Path) -> Path:
    """Write a log of `rows` rows."""
    path = folder / f"{kind}.log"
    with open(path, "w") as f:
        f.write(HEADS[kind])
        for first in range(1, rows + 1, PART):
            f.write(_rows(kind, first, min(PART, rows + 1 - first)))
    return path


def read_once(path: str, kind: str) -> None:
    """Read a log in this process, and print its rows, s and most memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    w = open_log(path, form={"columns": COLUMNS} if kind == "csv" else {})
    seconds = time.perf_counter() - begin
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rows": len(w), "seconds": seconds, "mib": most / 1024, "before": before / 1024}))


def measured(kinds: list[str], counts: list[int], every: bool) -> Iterator[list[str]]:
    """Yield rows of the page; `every`: all formats with all counts."""
    for kind in kinds:
        for rows in counts if every or kind not in LINE_BY_LINE else [n for n in counts if n <= FEW]:
            with tempfile.TemporaryDirectory() as folder:
                path = written(kind, rows, Path(folder))
                size = path.stat().st_size / 1e6
                words = [sys.executable, "-m", "benchmarks.readers", "--read", str(path), kind]
                x = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
            if x["rows"] != rows:
                raise SystemExit(f"{kind}: {x['rows']} of {rows} rows were read")
            yield [
                kind,
                f"{rows:,}",
                f"{size:,.0f}",
                f"{x['seconds']:.1f}",
                f"{rows / x['seconds'] / 1e6:.2f}",
                f"{x['mib']:,.0f}",
            ]
            print(kind, rows, x, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--only", nargs="*", default=list(HEADS))
    parser.add_argument("--all", action="store_true", help="PBS, LSF and Grid Engine with all numbers of rows, too")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=page, default=PAGE)
    asked = parser.parse_args()
    if asked.read:
        read_once(*asked.read)
        return
    stamp = made("python -m benchmarks.readers")
    heads = ["format", "rows", "MB of text", "s", "million rows/s", "most memory, MiB"]
    rows = table(heads, list(measured(asked.only, asked.rows, asked.all)))
    text = ["# Reading logs", stamp, WHAT]
    asked.out.write_text("\n\n".join([*text, "\n".join(rows)]) + "\n")


if __name__ == "__main__":
    main()
