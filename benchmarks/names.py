"""The tables of docs/orders.md, from the rows of `jobwise.sim.lists.orders` and `jobwise.policies.parts`.

python -m benchmarks.names      writes the tables between the marks; `make test` fails where the page is older than the rows
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from jobwise.policies.parts import GRAMMAR, STREAM
from jobwise.sim.lists.orders import STATIC, Order

PAGE = Path(__file__).parents[1] / "docs" / "orders.md"


def tables() -> dict[str, str]:
    """Return {mark: Markdown table} of the built-in orders and of the options."""
    orders = ["| order | score | which jobs start first | source | streams |", "|---|---|---|---|---|"]
    orders += [f"| {row.label} | {row.formula} | {row.doc} | {row.source} | {_yes(row.kind == STATIC)} |" for row in Order]
    options = ["| option | meaning | streams |", "|---|---|---|"]
    options += [f"| +{part.example} | {part.doc} | {_yes(STREAM in part.runs_on)} |" for part in GRAMMAR]
    return {"orders": "\n".join(orders), "options": "\n".join(options)}


def _yes(holds: bool) -> str:
    return "yes" if holds else ""


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text()
    for mark, table in tables().items():
        begin, end = f"<!-- {mark}: made by python -m benchmarks.names -->", f"<!-- end of {mark} -->"
        pattern = rf"{re.escape(begin)}\n.*?{re.escape(end)}"
        text, count = re.subn(pattern, lambda m, b=begin, t=table, e=end: f"{b}\n{t}\n{e}", text, flags=re.S)  # noqa: ARG005
        assert count == 1, mark
    return text


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_known_args()
    PAGE.write_text(page())
