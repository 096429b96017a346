"""The main job: judge what we recommend on the later jobs of a log, beside the rule in use and the best of the others."""

import argparse
import sys
import textwrap
from pathlib import Path

import jobwise as jw
from jobwise.cli.progress import progress
from jobwise.compare.answer import answer
from jobwise.compare.comparison import Comparison, hours
from jobwise.report.comparison import result
from jobwise.report.page import write
from jobwise.workloads.catalogue import LOGS, cache_folder

JOBS, USERS, PROCESSORS, SHARE, BOUND = 40_000, 60, 256, 0.7, 1.2


def the_log(folders: list[Path]) -> tuple[jw.Workload, str]:
    """(a log of a real cluster, where one of these folders has it, else a generated one; what it is, in words)."""
    files = [folder / Path(LOGS[name]).name for name in ("sdsc-sp2", "hpc2n") for folder in folders]
    if there := [f for f in files if f.exists()]:
        log = jw.open_log(str(there[0]))
        return log, f"The log is {log.name}: {len(log):,} jobs of a real cluster."
    log = jw.campaigns(jobs=JOBS, procs=PROCESSORS, load=0.7, users=USERS, seed=0)
    return log, f"No log of yours yet, so {JOBS:,} jobs of {USERS} users on {PROCESSORS} processors were made up."


def screen(c: Comparison, about: str, report: Path) -> str:
    """What was found, in at most 24 lines of 80 letters."""
    names = {"fcfs+easy": "first come, first served + EASY", "jobwise": "jobwise, learnt from this log"}
    lines = textwrap.wrap(f"{about} jobwise replayed the last {len(c.workload):,} jobs under each scheduler:", 79)
    lines += ["", f" {'':<38}{'mean':>9}{'longest':>10}{'waited over':>13}"]
    lines += [f" {'scheduler':<38}{'slowdown':>9}{'wait':>10}{'a day':>13}", " " + "─" * 71]
    for name, mark, s in zip(c.policies, c.marks, c.whole, strict=True):
        joined = f"the {mark.partition(' within')[0]}" if mark else name
        longest, late = f"{hours(s['max_wait'])} h", f"{s['over_a_day']:.1%}"
        arrow = "   <-" if name == "jobwise" else ""
        lines.append(f" {names.get(name, joined):<38}{s['bounded_slowdown']:>9,.1f}{longest:>10}{late:>13}{arrow}")
    lines.append("")
    for sentence in answer(c, [c.policies.index("jobwise")]):
        lines += textwrap.wrap(sentence, 79, break_on_hyphens=False, break_long_words=False)
    lines += ["", f" Look:        {report}       who wins, who loses, which job waits longest"]
    lines += [" Your Slurm:  jobwise slurm site    prints commands that only read"]
    return "\n".join([*lines, " Your log:    jobwise compare LOG.swf.gz"])


def main() -> int:
    """Compare, write the report, print the screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", default="traces", help="folder with SWF logs")
    parser.add_argument("--out", default="out", help="folder for the report")
    options = parser.parse_args()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with progress("reading the log"):
        log, about = the_log([Path(options.traces), cache_folder()])
    with progress("replaying it under some 200 schedulers") as step:
        c = jw.compare(log, ["fcfs+easy", "jobwise"], since=SHARE, max_wait=BOUND, replicas=4, progress=step)
    with progress("drawing the report") as step:
        write(result(c, learnt=[1]).naming(LOG="LOG.swf.gz", RUN="jobwise"), out / "report.html", force=True, progress=step)
    print(screen(c, about, out / "report.html"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
