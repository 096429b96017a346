"""The result of rolling origins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from jobwise.compare.comparison import verdict_of
from jobwise.compare.intervals import Effect, claims
from jobwise.compare.origins import Origins
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Section, Table


def of_origins(o: Origins) -> Result:
    """Return the result of rolling origins."""
    rows, effects = [], o.effects()
    sure = [*claims(effects[:-1]), False]
    for p, name in enumerate(o.policies):
        middle, least, most = o.waits(p)
        last = p == len(o.policies) - 1
        text, verdict = ("reference", "") if last else (effects[p].text(), verdict_of(effects[p], sure[p])[0])
        rows.append([name, f"{o.mean(p):,.2f}", text, f"{middle:.2f} ({least:.2f} to {most:.2f})", verdict])
    windows = sum(len(c.first_row) for c in o.comparisons)
    head = f"{o.workload.name}: {len(o.at)} origins, {windows} windows of {o.comparisons[0].window_jobs:,} unseen jobs"
    columns = ["scheduler", "mean", "against the fair best rule", f"longest wait x {o.policies[0]}", "verdict"]
    chosen = ", ".join(f"{t:g}: {n}" for t, n in zip(o.at, o.chosen, strict=True))
    bounded = [n for p, n in enumerate(o.policies) if o.keeps(p, o.bound)]
    bound = f"longest wait at most {o.bound:g} times that of {o.policies[0]} in every origin and replica: {', '.join(bounded)}"
    able = [p for p in range(len(rows) - 1) if o.bound == inf or o.keeps(p, o.bound)]
    best = min(able, key=lambda p: effects[p].change, default=None)
    within = f" of those that keep the longest wait within {o.bound:g} times" if o.bound < inf else ""
    if best is None:
        first = f"No scheduler here keeps the longest wait within {o.bound:g} times in every origin and replica."
    elif sure[best] and effects[best].change < 0:
        first = f"{o.policies[best]}{within} is better than the fair best rule: slowdown {effects[best].text()}."
    else:
        verdict, nearest = verdict_of(effects[best], sure[best])[0], f"{o.policies[best]}: {effects[best].text()}"
        first = f"No scheduler here is better than the fair best rule{within}. {nearest}, {verdict}."
    table = Table(columns, rows, head)
    after = "better, worse: p < 0.05 adjusted for all schedulers of the table (Holm), and by sign flips"
    notes = [
        f"fair best rule, chosen on the jobs before each origin: {chosen}",
        *([bound] if o.bound < inf else []),
        *(f"note: {x}" for x in o.notes),
    ]
    against = dict(zip(o.policies[:-1], effects[:-1], strict=True))
    return Result(
        title=f"{o.workload.name}: rolling origins",
        answer=[first],
        tables=[table],
        after=[after],
        notes=notes,
        data=o.to_dict,
        sections=partial(_sections, table, against, o.policies[-1], [after, *notes]),
    )


def _sections(
    table: Table, effects: dict[str, Effect], rule: str, notes: Sequence[str], progress: Progress | None
) -> list[Section]:
    from jobwise.report.figures import forest

    text = "Bounded slowdown on unseen jobs, geometric mean over blocks of windows of all origins, 95 %."
    figure = forest({"": effects}, f"change against {rule}; left is better")
    return [Section("The change", text, [table], [figure]), Section("Notes", "", items=notes)]
