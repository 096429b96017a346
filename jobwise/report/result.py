"""What a command has found: an answer in sentences, tables, notes, and all numbers. One shape for every command that judges.

The terminal (`jobwise.cli.tables.show`), a JSON document and a report (`jobwise.report.page`) show the same result.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from jobwise.report.sections import Section, Table

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Result:
    """The result of a command.

    `title`: of a report. `head`: the first line on a terminal. `answer`: sentences, the most important first; `cautions`
    stand before the tables of a terminal. `tables` of a terminal; `after`: sentences that belong behind them. `notes`: what
    a reader must know, and what the columns mean. `lines`: to be copied (of slurm.conf), under `lines_title`. `data`: all
    numbers, for JSON (a `notes` of its own stands for those here), or a function that makes them. `sections`: makes the
    rest of a report, with progress; without it a report shows the tables. `steps`: what a reader may do next, at the end of
    a report; in their commands LOG, SITE and RUN stand for what `naming` puts there.
    """

    title: str
    answer: Sequence[str]
    tables: Sequence[Table]
    data: dict | Callable[[], dict]
    head: str = ""
    cautions: Sequence[str] = ()
    after: Sequence[str] = ()
    notes: Sequence[str] = ()
    lines: Sequence[str] = ()
    lines_title: str = ""
    sections: Callable[[Progress | None], list[Section]] = field(default=lambda progress: [])
    steps: Sequence[str] = ()

    def naming(self, **names: str | None) -> Result:
        """Return the same with names in the places of the words in capitals of its steps: `naming(LOG="site.swf")`."""
        known = {k: shlex.quote(v) for k, v in names.items() if v}
        steps = [re.sub(r"\b[A-Z]+\b", lambda m: known.get(m[0], m[0]), x) for x in self.steps]
        return replace(self, steps=steps)

    def to_dict(self) -> dict:
        """Return everything for JSON: the answer, what a reader must know (`notes`), then the numbers."""
        data = self.data() if callable(self.data) else self.data
        return {"answer": list(self.answer), "notes": [x for x in (*self.cautions, *self.after, *self.notes) if x]} | data
