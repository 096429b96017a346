"""The benchmark that others can enter, with the schedulers of other simulators among the entries.

python -m benchmarks.bench [--checkouts FOLDER] [--out FOLDER] [more options of jobwise bench]    writes benchmarks/BENCH.md

Each peer of `peers/peers.toml` that names rules for it (`bench`) is installed as `python -m benchmarks.peers` does it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path

from benchmarks.peers.__main__ import HERE, WORK, Absent, install
from jobwise.cli import run
from jobwise.report.sections import made


def programs(checkouts: Path | None) -> tuple[list[str], list[str]]:
    """(the tables of the peers' schedulers in TOML, why others are not there)."""
    tables, absent = [], []
    for peer in tomllib.loads((HERE / "peers.toml").read_text())["peer"]:
        if "bench" not in peer and "absent" not in peer:
            continue
        try:
            installed = install(peer, checkouts)
        except Absent as why:
            absent.append(f"{peer['name']}: {why}")
            continue
        for rule in peer.get("bench", []):
            words = [*installed.command, str(HERE / "drivers" / f"{peer['name']}.py"), str(installed.folder)]
            command = json.dumps([*words, "{log}", "{processors}", rule, "{out}"])
            name, source = (
                json.dumps(f"{peer.get('known_as', peer['name'])}: {rule}"),
                json.dumps(peer["source"].removeprefix("https://")),
            )
            tables.append(f"[{name}]\ncommand = {command}\nsource = {source}\nlimit_s = 900\n")
    return tables, absent


def main() -> None:
    """Install the peers, run the benchmark, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, help="a folder with a checkout of each peer, by its name")
    parser.add_argument("--out", type=Path, default=WORK.parent / "bench")
    asked, more = parser.parse_known_args()
    WORK.mkdir(parents=True, exist_ok=True)
    tables, absent = programs(asked.checkouts)
    (WORK / "outside.toml").write_text("\n".join(tables))
    if code := run(["bench", "--out", str(asked.out), "--outside", str(WORK / "outside.toml"), *more]):
        sys.exit(code)
    shown = [Path(x).name if "/" in x else x for x in more]
    page = (asked.out / "report.md").read_text().splitlines()[1:]
    text = [
        "# The benchmark",
        "",
        made(" ".join(["python -m benchmarks.bench", *shown])),
        "",
        "[How to enter](../docs/bench.md)",
        *page,
        "",
    ]
    text += ["## Not entered", "", *(f"- {x}" for x in absent), ""] if absent else []
    (HERE.parent / "BENCH.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
