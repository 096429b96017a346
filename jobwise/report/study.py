"""The report of a study (`jobwise reproduce`): sections of text, tables and figures in one HTML file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jobwise import __version__
from jobwise.files import write_whole
from jobwise.report.sections import Section, made


def write_sections(title: str, sections: Sequence[Section], path: str | Path) -> None:
    """Write the sections to one HTML file."""
    import jinja2

    here = Path(__file__).parent
    style = re.search(r"<style>(.*?)</style>", (here / "comparison.html").read_text(), re.S)[1]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((here / "study.html").read_text())
    write_whole(Path(path), template.render(title=title, sections=sections, style=style, version=__version__))


def write_study(title: str, sections: Sequence[Section], folder: str | Path) -> None:
    """Write the sections to `folder/report.html`, and without the figures to `folder/report.md`."""
    folder = Path(folder)
    write_sections(title, sections, folder / "report.html")
    lines = [made(title)]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.text]
        for table in section.tables:
            lines += ["", f"| {' | '.join(table.columns)} |", "|" + "---|" * len(table.columns)]
            lines += [f"| {' | '.join(row)} |" for row in table.rows]
    write_whole(folder / "report.md", "\n".join(lines) + "\n")
