"""The main figures of the studies' pages, drawn from the tables that stand on them.

python -m jobwise_experiments.effects      writes docs/studies/figures/PAGE-effects-N.svg, and puts them into the pages

A page that is reproduced anew loses its figures of this kind until the command is run again; a test asks for it.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from jobwise.errors import InputError
from jobwise.report.figures import bars, forest
from jobwise_experiments.pages import PAGES, section, tables

HERE = Path(__file__).parent
CHANGE = re.compile(r"([-+−]?[\d.]+)% \[([-+−]?[\d.]+)%, ([-+−]?[\d.]+)%\]")


class Effect(NamedTuple):
    """A change with its 95 % interval, as it stands in a cell."""

    change: float
    low: float
    high: float


def figures() -> list[dict[str, Any]]:
    """Return the rows of effects.toml."""
    return tomllib.loads((HERE / "effects.toml").read_text())["figure"]


def values(figure: dict[str, Any], page: str) -> dict[str, dict[str, Any]]:
    """Return column -> row -> what is drawn of its cell: a change with its interval, or with `bars` a number. Raises InputError
    where the page has not got the table or a column."""
    found, index = tables(section(page, figure["section"])), figure.get("table", 0)
    if index >= len(found):
        raise InputError(f"section {figure['section']!r} has no table {index}")
    head, *rows = found[index]
    if missing := [c for c in figure["columns"] if c not in head]:
        raise InputError(f"section {figure['section']!r} has no column {missing[0]!r}")
    read = _number if figure.get("bars") else _effect
    series: dict[str, dict[str, Any]] = {c: {} for c in figure["columns"]}
    for row in rows:
        name = ", ".join(row[k] for k in figure["rows"])
        for c, x in series.items():
            if (value := read(row[head.index(c)])) is not None:
                x[name] = value
    return series


def _effect(cell: str) -> Effect | None:
    found = CHANGE.search(cell.replace("−", "-"))
    return Effect(*(float(x) / 100 for x in found.groups())) if found else None


def _number(cell: str) -> float | None:
    found = re.search(r"[\d.]+", cell)
    return float(found[0]) if found else None


def drawn(figure: dict[str, Any], series: dict[str, dict[str, Any]]) -> str:
    """Return a figure of values as SVG text, which ends with a digest of what it shows."""
    label = figure["caption"].replace("`", "")
    if figure.get("bars"):
        rows = dict.fromkeys(name for x in series.values() for name in x)
        groups = {name.replace(", ", ",\n"): {c: x[name] for c, x in series.items() if name in x} for name in rows}
        text = bars(groups, label.split(",")[0])
    else:
        text = forest(series, label)
    return f"{text}\n<!-- {digest(series)} -->\n"


def digest(series: dict[str, dict[str, Any]]) -> str:
    """Return what tells one set of values from another; pictures differ between versions of matplotlib, too."""
    return hashlib.sha1(repr(series).encode()).hexdigest()


def with_figures(page: str, name: str) -> tuple[str, dict[str, str]]:
    """Return (the page with its figures, {file name: SVG}) of a study; figures of before are replaced."""
    page = re.sub(rf"!\[[^\]]*\]\(figures/{re.escape(name)}-effects-\d+\.svg\)\n\n", "", page)
    files = {}
    for k, figure in enumerate(f for f in figures() if f["page"] == name):
        file = f"{name}-effects-{k + 1}.svg"
        files[file] = drawn(figure, values(figure, page))
        head = f"\n## {figure['section']}\n\n"
        page = page.replace(head, f"{head}![{figure['caption']}](figures/{file})\n\n", 1)
    return page, files


def main() -> None:
    """Draw all figures, and write the pages."""
    for name in dict.fromkeys(f["page"] for f in figures()):
        path = PAGES / f"{name}.md"
        page, files = with_figures(path.read_text(), name)
        for file, text in files.items():
            (PAGES / "figures" / file).write_text(text)
        path.write_text(page)
        print(f"{path.name}: {', '.join(files)}", file=sys.stderr)


if __name__ == "__main__":
    main()
