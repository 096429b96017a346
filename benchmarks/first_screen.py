"""What the README shows: its picture, its table, and the real output of its commands. Nothing of it is typed by hand.

    python -m benchmarks.first_screen FOLDER_WITH_LOGS FOLDER_WITH_RECORDINGS

Replays SDSC-SP2 under the default schedulers for the picture, runs the README's commands on it, takes the table from
docs/studies/promise.md, writes benchmarks/FIRST_SCREEN.md, and puts the same between the markers of README.md.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import redirect_stdout
from pathlib import Path

import jobwise as jw
from benchmarks import markdown
from jobwise.cli.compare import DEFAULT
from jobwise.compare.procedure import compare
from jobwise.report.figures import trade_off
from jobwise.report.sections import made
from jobwise_experiments import claims, pages
from jobwise_experiments.pages import Cells

ROOT = Path(__file__).parent.parent
LOG = "SDSC-SP2-1998-4.2-cln.swf.gz"
STUDY, LEFT_OUT = "docs/studies/promise.md", "docs/studies/left-out.md"
HEAD = ["log", "FCFS + EASY", "`jobwise`", "longest wait", "against the rule chosen before", "against the rule of hindsight"]


def tables(title: str, page: str = STUDY) -> list[Cells]:
    """The tables of the section of the study whose title begins so."""
    return pages.tables(next(x for x in (ROOT / page).read_text().split("\n## ") if x.startswith(title)))


def worth() -> list[list[str]]:
    """The README's table: whole logs, and `jobwise` against rules on the jobs after six origins."""
    beside = {r[0].split(";")[0]: r for r in tables("Against")[0][1:] if not r[0].endswith("; ended")}
    out = [HEAD]
    for log, fcfs, ours, _, _, median, largest in tables("Bounds")[0][1:]:
        if log == "all logs":
            continue
        x = beside.get(log, [""] * 8)  # one that is not replayed at origins
        out.append([f"`{log}`", fcfs, ours, f"{median} ({largest})", x[3], x[7]])
    pooled = beside["all busy logs"]
    return [*out, ["**all busy logs**", "", "", "", pooled[3], pooled[7]]]


def headed(rows: list[list[str]]) -> str:
    """A table whose first row is its head."""
    return "\n".join(markdown.table(rows[0], rows[1:]))


PICTURE = ("scheduler", "windows", "time-shifted replays", "as logged", "longest wait, days")


def picture(folder: Path) -> list[list[str]]:
    """Draw the trade-off; the figures behind it."""
    c = compare(jw.read_swf(folder / LOG), DEFAULT)
    (ROOT / "docs" / "images" / "trade-off.svg").write_text(trade_off(c))
    rows = [list(PICTURE)]
    for p, name in enumerate(c.policies):
        s = [c.windows["bounded_slowdown"][p].mean(), c.whole[p]["bounded_slowdown"], c.logged[p]["bounded_slowdown"]]
        rows.append([name, *(f"{x:.1f}" for x in s), f"{c.whole[p]['max_wait'] / 86400:.0f}"])
    return rows


def caption(rows: list[list[str]]) -> str:
    """What the picture shows, in words."""
    of = {r[0]: dict(zip(PICTURE, r, strict=True)) for r in rows[1:]}
    a, b = of["fcfs+easy"], of["saf+easy"]
    days = f"{b['longest wait, days']} days instead of {a['longest wait, days']}"
    return f"*{LOG.removesuffix('.swf.gz')}: smallest area first lets one job wait {days}. Dashed: the Pareto front.*"


def row(file: str, begins: str, section: str = "") -> list[str]:
    """The cells of the first row of a generated table that begins so."""
    text = (ROOT / file).read_text()
    text = text[text.index(section) :]
    line = next(x for x in text.split("\n") if x.startswith(f"| {begins} |"))
    return [c.strip() for c in line.strip("|").split("|")]


PAGES = "docs/systems/"
SYSTEMS = (  # system and its page, paper, what its agent does, experiment of the claims, what ours is measured against
    ("RLScheduler", "rlscheduler", "SC'20", "picks a job of a window", "lublin_256 with greedy", "slowdown {}, published {}"),
    ("SEM, DRAS", "sem", "IPDPS'21", "pick jobs, reserve", "convergence on Theta", "SEM sooner by {} episodes: no difference"),
    (
        "DeepRM",
        "deeprm",
        "HotNets'16",
        "packs time slots",
        "the same, with our changes",
        "{} against SJF, BEST against the best rule",
    ),
    ("CuSH", "cush", "DRL4KDD'19", "picks placements", "the same, with our changes", "{} against the best blind pair"),
    ("RL-TAPS", "rl-taps", "CASCON'20", "places GPU jobs", "slowdown against SJF, Tetris and Random, one", "{} against SJF"),
    ("MARS", "mars", "2020", "keeps models and rules", "the same against the best rule", "equal to the best rule"),
    ("Telemetry", "telemetry", "slides", "avoids loaded nodes", "part A", "{} against the slides' rule"),
)


def systems() -> str:
    """The README's table of published schedulers, from the claims of their papers."""
    rows = []
    for name, page, paper, does, experiment, words in SYSTEMS:
        line = next(r for r in claims.rows() if r[0].lower()[:4] == f"[{name.lower()[:3]}" and r[1].startswith(experiment))
        best = row("docs/studies/deeprm.md", "ours", "## Agents")[4]
        rows.append(
            [f"[{name}]({PAGES}{page}.md)", paper, does, words.format(line[4].split("; ")[0], line[3]).replace("BEST", best)]
        )
    return headed([["system", "paper", "its agent", "ours [95 %]"], *rows])


def bullets(rows: list[list[str]], found: dict[str, str]) -> str:
    """Three bullets, with a number each."""
    sp2, head = (
        row("benchmarks/RESULTS.md", LOG.removesuffix(".swf.gz"), "## Logs"),
        row("benchmarks/RESULTS.md", "log", "## Logs"),
    )
    rate, of = sp2[head.index("fcfs+easy")].split(" ")[0], {r[0]: dict(zip(PICTURE, r, strict=True)) for r in rows[1:]}
    change = re.findall(r"saf\+easy is better than fcfs\+easy: slowdown\s+(\d+%)\s+lower", found[COMPARE])[0]
    mean = ", not the mean" if "mean is not lower" in " ".join(found[COMPARE].split()) else ""
    days, deep = of["saf+easy"]["longest wait, days"], row("docs/studies/deeprm.md", "ours", "## Agents")[3].split(" ")[0]
    return "\n".join(
        [
            f"- **It is fast.** It simulates {rate} million jobs per second on one core, under EASY backfilling.",
            f"- **It is hard to fool.** On SDSC-SP2 smallest area first lowers the typical slowdown by {change}{mean}, "
            f"and lets one job wait {days} days.",
            f"- **Seven published RL schedulers, retrained.** Some beat plain rules (DeepRM with our changes: {deep} against "
            "SJF). Some do not, and we say which.",
        ]
    )


def short() -> str:
    """The results in a sentence."""
    pooled = next(r for r in tables("Against")[0][1:] if r[0].startswith("all busy logs"))
    against = next(r for r in tables("What each part")[0] if r[0] == "all busy logs" and r[1] == "jobwise")
    tried = row("docs/studies/trial.md", "all 7 busy logs", "## Against")[5]
    return (
        f"[`jobwise`](docs/systems/promise.md) is as good as the best of some 400 rules ({pooled[3]}), and halves the slowdown "
        f"of FCFS + EASY ({against[3]}). Restartable jobs gain more ([trial runs](docs/systems/trial.md): {tried})."
    )


COMPARE = "jobwise compare log.swf.gz -p fcfs+easy -p saf+easy -p saf+easy+guard24h"
WHAT_IF, SITE = "jobwise slurm what-if site --nodes 2", "partitions"


def outputs(folder: Path, recordings: Path) -> list[tuple[str, str]]:
    """(command, what it prints in a terminal of 80 columns) of the README's commands."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(folder / LOG, Path(place) / "log.swf.gz")
        found = []
        shutil.copytree(recordings / SITE, Path(place) / "site")
        last = "jobwise compare log.swf.gz --split 0.7 --max-wait 1.2x -p fcfs+easy -p jobwise"
        explain = "jobwise explain jobwise log.swf.gz --choice 1022 --top 6"
        for command in (COMPARE, explain, f"{last} --report out.html", WHAT_IF):
            script = "import sys; sys.stdout.isatty = lambda: True; from jobwise.cli import run; "
            script += f"sys.exit(run({command.split()[1:]!r}))"
            told = os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
            done = subprocess.run(
                [sys.executable, "-c", script], cwd=place, env=told, capture_output=True, text=True, check=True
            )
            found.append((command, "\n".join(x.rstrip() for x in done.stdout.replace("\x1b[0m", "").strip("\n").split("\n"))))
            print(f"$ {command}\n{done.stdout}", flush=True)
        return found


def put(text: str, name: str, new: str) -> str:
    """README text with what stands between the markers of `name` replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if begin not in text:
        return text
    return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}{new}\n{end}", text, flags=re.S)


def write(figures: list[list[str]], found: list[tuple[str, str]]) -> None:
    """Write FIRST_SCREEN.md, and the README between its markers."""
    table, said, shown = headed(worth()), caption(figures), dict(found)
    text = [
        "# First screen",
        "",
        f"{made('python -m benchmarks.first_screen FOLDER RECORDINGS')}, on {LOG} and a recording of a test Slurm ({SITE}).",
        "",
        "## The picture",
        "",
        headed(figures),
        "",
        said,
        "",
    ]
    text += ["## The table", "", f"From {STUDY}.", "", table, "", short(), "", bounds(), ""]
    text += ["## Systems", "", systems(), "", bullets(figures, shown), "", "## The commands", ""]
    for command, out in [*found, (PYTHON, printed())]:
        text += ["```console", f"$ {command}", out, "```", ""]
    (Path(__file__).parent / "FIRST_SCREEN.md").write_text("\n".join(text))
    page = README.read_text()
    for name, new in (
        ("table", table),
        ("caption", said),
        ("bullets", bullets(figures, shown)),
        ("systems", systems()),
        ("short", short()),
        ("bounds", bounds()),
        ("python", f"```text\n{printed()}\n```"),
        ("what-if", f"```console\n$ {WHAT_IF}\n{shortened(shown[WHAT_IF])}\n```"),
    ):
        page = put(page, name, new)
    README.write_text(page)


README, PYTHON = ROOT / "README.md", "the first block of Python of README.md"


def printed() -> str:
    """What the README's first block of Python prints: its table."""
    code, out = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)[0], io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    lines = out.getvalue().split("\n")
    return "\n".join(x.rstrip() for x in lines[: lines.index("", 2)])


def shortened(out: str) -> str:
    """An output as the README shows it: the first table, and the answer."""
    paragraphs = [x.strip("\n") for x in out.split("\n\n")]
    table = next(x for x in paragraphs if "verdict" in x)
    said = next(x for x in paragraphs if x.startswith("+2 nodes:"))
    return "\n".join([table, *said.split("\n")[: said[: said.index("slowdown: (wait")].count("\n")]])


def bounds() -> str:
    """How often the bound on waits is kept, which logs are missing: from the study."""
    every = next(r for r in tables("Bounds")[0] if r[0] == "all logs")
    text = (ROOT / STUDY).read_text()
    left = re.findall(r"Left out: (.*?)\.\n", text)[0]
    out = next(r for r in tables("Chosen without", LEFT_OUT)[0] if r[0] == "all logs")
    missing = "" if left == "none" else f" Not finished, and left out: {left}."
    kept = f"It kept that in {every[3]} of the fifths of the logs; the worst was {every[6]} times."
    other = f"On [logs that did not choose its constants](docs/studies/left-out.md): {out[2]}, {out[3]} at most."
    blind = "It is [no blind test](docs/studies/promise.md)."
    return f"`jobwise` aims at 1.2 times the longest wait under FCFS + EASY. {kept} {other} {blind}{missing}"


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_known_args()
    logs = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces/swf")
    recordings = Path(sys.argv[2] if len(sys.argv) > 2 else "../shared/slurm/recorded")
    write(picture(logs), outputs(logs, recordings))
