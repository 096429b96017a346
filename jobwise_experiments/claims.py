"""What the papers claim beside what the pages of docs/studies say, in one table.

python -m jobwise_experiments.claims     # writes docs/studies/README.md
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from jobwise.errors import InputError
from jobwise.report.sections import made
from jobwise_experiments.pages import PAGES, section, tables

HERE = Path(__file__).parent
COLUMNS = [
    "system",
    "experiment",
    "the paper's size",
    "its number",
    "ours [95 %]",
    "our size",
    "why it is smaller",
    "state use",
]
STATE_USE = "state-use"  # the page that says what a system's networks look at
WORDS = """Each row is a claim of a paper and the number of the page behind it, taken from there by this command; the sizes are
those of the preset that the page was made with. Losses are among them: an agent as published, at a fraction of its training,
does not do what its paper says. A number with * is ours: an assumption where the paper, or its slides, names none. State use:
what networks of that system look at ([state-use](state-use.md), trained anew, seed by seed)."""


def rows() -> list[list[str]]:
    """The rows of the table. Raises InputError where a page does not have what a claim names."""
    claims = tomllib.loads((HERE / "claims.toml").read_text())["claim"]
    return [_row(x) for x in claims]


def _row(x: dict) -> list[str]:
    page = (PAGES / f"{x['page']}.md").read_text()
    preset = re.search(r"--preset (\w+)", page)
    where, pattern = x.get("words", ("", ""))
    ours = list(re.search(pattern, section(page, where) if where else page).groups())  # type: ignore[union-attr]
    ours += [_cell(page, *cell) for cell in x.get("cells", [])]
    size = x["run"][preset[1] if preset else "small"]
    link = f"[{x['system']}]({x['page']}.md)"
    why = x["why"] if size != x["size"] else ""
    return [link, x["experiment"], x["size"], x["paper"], "; ".join(ours), size, why, _state_use(x.get("agent", ""))]


def _state_use(agent: str) -> str:
    """What the page says of an agent's networks; "" where no network is meant."""
    if not agent:
        return ""
    head, *lines = tables(section((PAGES / f"{STATE_USE}.md").read_text(), "Systems, trained anew"))[0]
    words = [x[head.index("state use")] for x in lines if x[0] == agent]
    return words[0] if words else "not probed"


def _cell(page: str, title: str, where: dict[str, str], column: str, nth: int = 0, other: str = "") -> str:
    """A cell of the first table of a section that has the column; of several columns of one name the nth; of another page."""
    page = (PAGES / f"{other}.md").read_text() if other else page
    found = [x for x in tables(section(page, title)) if column in x[0]]
    if not found:
        raise InputError(f"section {title!r}: no column {column!r}")
    head, *lines = found[0]
    at = [i for i, name in enumerate(head) if name == column][nth]
    for line in lines:
        if all(line[head.index(k)].startswith(v) for k, v in where.items()):
            return line[at]
    raise InputError(f"section {title!r}: no row with {where}")


def page() -> list[str]:
    """The lines of the page below the first."""
    table = [COLUMNS, ["---"] * len(COLUMNS), *rows()]
    return ["", WORDS, "", *(f"| {' | '.join(line)} |" for line in table)]


if __name__ == "__main__":
    lines = ["# The papers' claims", "", made("python -m jobwise_experiments.claims"), *page()]
    (PAGES / "README.md").write_text("\n".join(lines) + "\n")
