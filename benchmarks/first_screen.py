"""What the README shows: its picture, its table, and the real output of its commands. Nothing of it is typed by hand.

    python -m benchmarks.first_screen FOLDER_WITH_LOGS

Replays SDSC-SP2 under the default schedulers for the picture, runs the README's commands on it, takes the table from
docs/studies/promise.md, writes benchmarks/FIRST_SCREEN.md, and puts the same between the markers of README.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jobwise as jw
from benchmarks import markdown
from jobwise.cli.compare import DEFAULT
from jobwise.compare.procedure import compare
from jobwise.report.figures import trade_off
from jobwise.report.sections import made
from jobwise_experiments import pages
from jobwise_experiments.pages import Cells

ROOT = Path(__file__).parent.parent
LOG = "SDSC-SP2-1998-4.2-cln.swf.gz"
STUDY, LEFT_OUT = "docs/studies/promise.md", "docs/studies/left-out.md"
HEAD = ["log", "FCFS + EASY", "`jobwise`", "its longest wait"]
HEAD += ["change against the best rule chosen on earlier months", "against the best rule chosen afterwards"]


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
    return (
        f"*{LOG.removesuffix('.swf.gz')}, mean bounded slowdown of time-shifted replays of the whole log. In windows of "
        "1,024 jobs smallest-area-"
        f"first looks far better than first-come, first-served ({b['windows']} against {a['windows']}); replayed continuously "
        f"({b['time-shifted replays']} against {a['time-shifted replays']}) its longest wait is "
        f"{b['longest wait, days']} days against "
        f"{a['longest wait, days']}. The dashed line joins what nothing else beats on both axes.*"
    )


def row(file: str, begins: str, section: str = "") -> list[str]:
    """The cells of the first row of a generated table that begins so."""
    text = (ROOT / file).read_text()
    text = text[text.index(section) :]
    line = next(x for x in text.split("\n") if x.startswith(f"| {begins} |"))
    return [c.strip() for c in line.strip("|").split("|")]


def numbers() -> str:
    """Three numbers with their links, from generated tables."""
    sp2, ricc = (row("benchmarks/RESULTS.md", n, "## Logs") for n in ("SDSC-SP2-1998-4.2-cln", "RICC-2010-2"))
    head = row("benchmarks/RESULTS.md", "log", "## Logs")
    easy, sjf, wfp3 = (head.index(n) for n in ("fcfs+easy", "sjf+easy", "wfp3+easy"))
    rate = lambda r, i: r[i].split(" ")[0]  # noqa: E731
    deep = row("docs/studies/deeprm.md", "ours", "## Agents")
    cush = row("docs/studies/cush.md", "50% / 50%")
    return "\n".join(
        [
            f"* [Speed](benchmarks/RESULTS.md), million jobs per second of one core: {rate(sp2, easy)} "
            f"(`fcfs+easy`), {rate(sp2, sjf)} "
            f"(`sjf+easy`), {rate(sp2, wfp3)} (`wfp3+easy`) on SDSC-SP2; {rate(ricc, easy)}, {rate(ricc, sjf)}, "
            f"{rate(ricc, wfp3)} on "
            "RICC, whose queue is thousands deep.",
            f"* [DeepRM's world](docs/systems/deeprm.md): our agent {deep[3]} against SJF, {deep[4]} against "
            "`hold`, a rule of one line; "
            f"its longest wait is {deep[5]} rows, SJF's {row('docs/studies/deeprm.md', 'sjf', '## Agents')[5]}.",
            f"* [CuSH's world](docs/systems/cush.md), half of the jobs of each kind: {cush[4]} against the best "
            "rule that does not know the "
            f"kinds, {cush[11]} against `hold+typed`, a rule that does, and that the agent begins by imitating.",
        ]
    )


def outputs(folder: Path) -> list[tuple[str, str]]:
    """(command, what it prints in a terminal of 80 columns) of the README's commands."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(folder / LOG, Path(place) / "log.swf.gz")
        found = []
        last = "jobwise compare log.swf.gz --split 0.7 --max-wait 1.2x -p fcfs+easy -p jobwise"
        for command in (
            "jobwise compare log.swf.gz -p fcfs+easy -p saf+easy -p saf+easy+guard24h",
            "jobwise explain jobwise log.swf.gz --choice 1022 --top 6",
            f"{last} --report out.html",
        ):
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
    table, said = headed(worth()), caption(figures)
    text = [
        "# First screen",
        "",
        f"{made('python -m benchmarks.first_screen FOLDER')}, on {LOG}.",
        "",
        "## The picture",
        "",
        headed(figures),
        "",
        said,
        "",
    ]
    text += ["## The table", "", f"From {STUDY}.", "", table, "", bounds(), "", "## The numbers", "", numbers(), ""]
    text += ["## The commands", ""]
    for command, out in found:
        text += ["```console", f"$ {command}", out, "```", ""]
    (Path(__file__).parent / "FIRST_SCREEN.md").write_text("\n".join(text))
    readme = ROOT / "README.md"
    page = put(put(put(readme.read_text(), "table", table), "caption", said), "numbers", numbers())
    page = put(page, "bounds", bounds())
    blocks = "\n".join(f"$ {command}\n{shortened(out)}" for command, out in found)
    readme.write_text(put(page, "commands", f"```console\n{blocks}\n```"))


def shortened(out: str) -> str:
    """An output as the README shows it: of a comparison the answer and the whole table, not what its columns are."""
    lines = [x for x in out.split("\n") if x.strip() and not set(x.strip()) <= {"─"} and not x.startswith("  seed")]
    legend = next((i for i, x in enumerate(lines) if x.startswith(("windows: mean bounded", "note: "))), None)
    rest = [x for x in lines if x.startswith("report:")]
    return "\n".join(lines if legend is None else [*lines[:legend], *rest])


def bounds() -> str:
    """How often the bound on waits is kept, which logs are missing: from the study."""
    every = next(r for r in tables("Bounds")[0] if r[0] == "all logs")
    text = (ROOT / STUDY).read_text()
    held = re.findall(r"in 95 % of all cells the longest wait is at most ([\d.]+) times", text)[0]
    left = re.findall(r"Left out: (.*?)\.\n", text)[0]
    pooled = {r[1]: r for r in tables("What each part")[0] if r[0] == "all busy logs"}
    ours = pooled["jobwise"]
    out = next(r for r in tables("Chosen without", LEFT_OUT)[0] if r[0] == "all logs")
    missing = "" if left == "none" else f" Not finished, and left out: {left}."
    return (
        f"Aimed at: 1.2 times the longest wait under FCFS + EASY so far; kept in {every[3]} of the fifths, and in 95 % of them "
        f"within {held} times ({every[6]} at most). On [logs that did not choose the constants](docs/studies/left-out.md): "
        f"{out[2]} ({out[3]} at most). On later jobs, against FCFS + EASY: {ours[3]}. Changes are of "
        f"geometric means.{missing}"
    )


if __name__ == "__main__":
    logs = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces/swf")
    write(picture(logs), outputs(logs))
