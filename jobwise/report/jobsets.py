"""The result of a trained policy on jobsets that it has not seen, beside rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from jobwise.compare.comparison import BETTER, OPEN, WORSE
from jobwise.learn.judged import OnJobsets
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Section, Table

KEPT = ("slowdown", "longest", "stretch", "lost")  # numbers of a policy on a jobset


def of_jobsets(j: OnJobsets) -> Result:
    """Return the result of policies on jobsets."""
    changes, rows = j.changes(), []
    for name, x in j.results.items():
        change = "" if name == j.best else changes[name].text("+.1%")
        cells = [f"{np.mean(x['slowdown']):.3f}", change, f"{np.mean(x['longest']):.1f}", f"{np.mean(x['stretch']):.3f}"]
        rows.append([name, *cells, f"{sum(x['lost'])}"])
    columns = ["policy", j.measure.split(" (")[0], f"against {j.best}", "longest wait, rows", j.aside, "jobs not done"]
    notes = [f"{j.policy} {j.note}"] if j.note else []
    own, e = float(np.mean(j.results[j.policy]["slowdown"])), changes[j.policy]
    verdict = BETTER if e.high < 0 else WORSE if e.low > 0 else OPEN
    than = f"{'from' if verdict == OPEN else 'than'} {j.best}, the best rule of these very jobsets, in hindsight"
    table = Table(columns, rows, f"{j.count} unseen jobsets: {j.measure}")
    return Result(
        title=f"{j.policy} on jobsets that it has not seen",
        answer=[f"{j.policy}: {columns[1]} {own:.3f}, {e.text('+.1%')}; {verdict} {than}."],
        tables=[table],
        notes=[f"note: {x}" for x in notes],
        data={
            "policy": j.policy,
            "best_rule": j.best,
            "jobsets": j.count,
            "policies": {n: {k: float(np.mean(x[k])) for k in KEPT} for n, x in j.results.items()},
            "change": {n: e.to_dict() for n, e in changes.items()},
            "notes": [j.note] if j.note else [],
        },
        sections=partial(_sections, j, table, notes),
        steps=["See it work: jobwise watch RUN --out film.gif", "Give it to programs without PyTorch: jobwise export-onnx RUN"],
    )


def _sections(j: OnJobsets, table: Table, notes: Sequence[str], progress: Progress | None) -> list[Section]:
    from jobwise.report.figures import forest

    effects = {n: e for n, e in j.changes().items() if n != j.best}
    figures = [forest({"": effects}, f"change against {j.best}; left is better")] if effects else []
    return [Section(table.title, "", [table], figures, items=[f"Note: {x}" for x in notes])]
