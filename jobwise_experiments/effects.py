"""The main figures of the studies' pages, drawn from the tables that stand on them.

python -m jobwise_experiments.effects      writes docs/studies/figures/PAGE-effects-N.svg, and puts them into the pages

A page that is reproduced anew loses its figures of this kind until the command is run again; a test asks for it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter

from jobwise.report.figures import bars, colour, svg

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "studies"
CHANGE = re.compile(r"([-+−]?[\d.]+)% \[([-+−]?[\d.]+)%, ([-+−]?[\d.]+)%\]")
LIMIT = 1.5  # changes beyond it are drawn at the edge

Values = dict[str, dict[str, tuple[float, float, float]]]  # column -> row -> change, its interval


def figures() -> list[dict[str, Any]]:
    """Return the rows of effects.toml."""
    return tomllib.loads((HERE / "effects.toml").read_text())["figure"]


def table_of(page: str, section: str, index: int) -> tuple[list[str], list[list[str]]]:
    """Return (columns, rows) of a table of a page. Raises LookupError where the page has it no longer."""
    pieces = [x for x in page.split("\n## ")[1:] if x.split("\n")[0].strip() == section]
    tables = re.findall(r"(?:^\|.*\|\n?)+", pieces[0], re.M) if pieces else []
    if index >= len(tables):
        raise LookupError(f"there is no table {index} in section {section!r}")
    head, _, *rows = ([c.strip() for c in line.strip("| ").split("|")] for line in tables[index].strip().split("\n"))
    return head, rows


def drawn(figure: dict[str, Any], page: str) -> str:
    """Return a figure as SVG text. Raises LookupError where the page has not got what it needs."""
    head, rows = table_of(page, figure["section"], figure.get("table", 0))
    if missing := [c for c in figure["columns"] if c not in head]:
        raise LookupError(f"section {figure['section']!r} has no column {missing[0]!r}")
    names = [", ".join(row[k] for k in figure["rows"]) for row in rows]
    at = {c: head.index(c) for c in figure["columns"]}
    if figure.get("bars"):
        groups = {}
        for name, row in zip(names, rows, strict=True):
            groups[name.replace(", ", ",\n")] = {c: float(x[0]) for c in at if (x := re.findall(r"[\d.]+", row[at[c]]))}
        return bars({name: x for name, x in groups.items() if x}, figure["caption"].split(",")[0])
    values: Values = {c: {} for c in at}
    for name, row in zip(names, rows, strict=True):
        for c, k in at.items():
            if k < len(row) and (found := CHANGE.search(row[k].replace("−", "-"))):
                values[c][name] = tuple(float(x) / 100 for x in found.groups())  # type: ignore[assignment]
    return _intervals({c: x for c, x in values.items() if x}, figure["caption"])


def _intervals(values: Values, label: str) -> str:
    names = list(dict.fromkeys(n for x in values.values() for n in x))

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        for k, (column, x) in enumerate(values.items()):
            y = [names.index(n) + (k - (len(values) - 1) / 2) * 0.8 / max(len(values), 2) for n in x]
            change, low, high = np.array(list(x.values())).T
            ax.hlines(y, np.clip(low, -1, LIMIT), np.clip(high, -1, LIMIT), color=colour(k), lw=2)
            ax.scatter(np.clip(change, -1, LIMIT), y, color=colour(k), s=24, zorder=3, label=column)
        ax.axvline(0, color="#6b7280", lw=1)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xlabel(label.split(";")[0].replace("`", ""))
        if len(values) > 1:
            figure.legend(loc="outside upper center", ncols=len(values))

    height = 1.2 + len(names) * max(0.26, 0.15 * len(values))
    return svg(draw, width=7.8, height=height, label=label.replace("`", ""))


def with_figures(page: str, name: str) -> tuple[str, dict[str, str]]:
    """Return (the page with its figures, {file name: SVG}) of a study; figures of before are replaced."""
    page = re.sub(rf"!\[[^\]]*\]\(figures/{re.escape(name)}-effects-\d+\.svg\)\n\n", "", page)
    files = {}
    for k, figure in enumerate(f for f in figures() if f["page"] == name):
        file = f"{name}-effects-{k + 1}.svg"
        files[file] = drawn(figure, page) + "\n"
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
