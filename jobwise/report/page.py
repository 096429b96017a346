"""A report: a result, or the sections of a study, in one HTML file that opens offline, in any browser, on a phone too."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from jobwise import __version__
from jobwise.errors import InputError, plain
from jobwise.files import check_writable, write_whole
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Cell, Section, Table, made


def write(result: Result, path: str | Path, *, force: bool = False, progress: Progress | None = None) -> None:
    """Write the report of a result to `path`. Raises InputError where the file cannot be written, or exists and `force` is not
    set."""
    check_writable(path)
    if Path(path).exists() and not force:
        raise InputError(f"{path}: exists already; force overwrites it")
    write_whole(path, render(result, progress))


def render(result: Result, progress: Progress | None = None) -> str:
    """Return the report of a result as HTML text; the same result makes the same text."""
    sections = result.sections(progress)
    if not sections:
        notes = Section("Notes", "", items=[x for x in result.notes if x])
        sections = [*(Section(t.title, "", [t]) for t in result.tables), notes]
    if result.lines:
        sections = [Section(result.lines_title, "", lines=result.lines), *sections]
    if result.steps:  # behind what is open
        opened = sum(not s.folded for s in sections)
        sections = [*sections[:opened], Section("What to do next", "", items=result.steps), *sections[opened:]]
    there = {x for s in sections for x in s.items}
    first, *more = [*result.answer, *result.cautions] or [""]
    return _page(result.title, sections, answer=[first, *(x for x in more if x not in there)])


def write_study(title: str, sections: Sequence[Section], folder: str | Path) -> None:
    """Write the sections of a study to `folder/report.html`, and to `folder/report.md` with figures in `folder/figures`."""
    folder = Path(folder)
    write_whole(folder / "report.html", _page(title, sections))
    lines = [made(title)]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.text]
        for table in section.tables:
            lines += ["", f"| {' | '.join(map(str, table.columns))} |", "|" + "---|" * len(table.columns)]
            lines += [f"| {' | '.join(str(x).replace('|', chr(92) + '|') for x in row)} |" for row in table.rows]
        lines += ["", *(f"- {x}" for x in section.items)] if section.items else []
        for figure in section.figures:
            if not isinstance(figure, str) and figure.name:
                (folder / "figures").mkdir(exist_ok=True)
                write_whole(folder / "figures" / f"{figure.name}.svg", figure.svg + "\n")
                lines += ["", f"![{figure.caption}](figures/{figure.name}.svg)"]
    write_whole(folder / "report.md", "\n".join(lines) + "\n")


def _page(
    title: str,
    sections: Sequence[Section],
    answer: Sequence[str] = (),
) -> str:
    import jinja2

    here = Path(__file__).parent
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((here / "page.html").read_text())
    style, script = (here / "page.css").read_text(), (here / "page.js").read_text()
    key = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()  # the browser runs no other script
    shown = [(s, [(t, [[_cell(x) for x in row] for row in t.rows]) for t in s.tables]) for s in sections]
    return plain(
        template.render(title=title, answer=answer, sections=shown, style=style, script=script, key=key, version=__version__)
    )


def _cell(x: str | Cell) -> Cell:
    return x if isinstance(x, Cell) else Cell(x)


__all__ = ["Result", "Section", "Table", "render", "write", "write_study"]
