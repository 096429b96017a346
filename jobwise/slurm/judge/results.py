"""The results of `jobwise slurm fidelity`, `what-if` and `tune`, as a terminal, a JSON document and a report show them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from jobwise import metrics
from jobwise.compare import energy
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Section, Table
from jobwise.slurm.judge import fidelity
from jobwise.slurm.judge.fidelity import Fidelity, trusted
from jobwise.slurm.judge.repeats import COLUMNS, Repeats
from jobwise.slurm.judge.tune import FEWEST, Tuned
from jobwise.slurm.judge.what_if import Change
from jobwise.slurm.read.site import most_helpful, not_simulated
from jobwise.workload import Workload
from jobwise.workloads.transform import span

BRIEF_H = 48  # of submits: fewer hours hold no two days to compare
PARTS = 40  # of the time, in the figure of waits
# {}: the unit of waits
HEAD = ("change", "mean wait {}", "slowdown", "typical change [95 %]", "longest wait {}", "x now", "verdict")
MORE = ("change", "mean wait [95 %]", "95 % wait {}", "in use", "node-hours", "stopped", "verdict")
GROUPED = ("what", "group", "jobs", "now s", "then s", "change")
TUNE = "Let settings be searched within a bound on waits, and judged on later jobs: jobwise slurm tune SITE --max-wait 1.2x"
EXPLAINED = (
    "slowdown: (wait + run) / run, run at least 10 s; change: of the slowdown in a typical block of time, with its 95 % "
    "interval. All numbers are means of time-shifted replicas: the mean wait now is not quite that of `slurm fidelity`. "
    "Groups: change of the mean wait, each by its own interval; the six largest of a kind, of 20 jobs or more"
)


def of_fidelity(w: Workload, results: Sequence[Fidelity], again: Repeats | None = None) -> Result:
    """Return the result of recorded waits beside simulated ones; the policy that explains the record best is the first.
    `again`: the same jobs were run more than once."""
    recorded = results[0].recorded
    first = ["recorded", f"{recorded.mean():,.0f}", "", "", "", "", ""]
    submit = w.jobs["submit"]
    waits = {"recorded": (submit, recorded)} | {f.policy: (submit, f.wait) for f in results[:3]}
    shown = next((f for f in results if f.policy == "slurm"), results[0])  # what a what-if simulates
    groups = Table(("what", "group", "jobs", "recorded s", "simulated s", "change"), fidelity.by_group(w, shown))
    groups = Table(groups.columns, groups.rows, f"by group, {shown.policy}")
    tables = [Table(fidelity.COLUMNS, [first, *(f.row() for f in results)], f"{w.name}: {len(w):,} jobs"), groups]
    if again:
        tables.append(Table(COLUMNS, again.table(), "Slurm beside itself, the simulation beside Slurm"))
    return Result(
        title=f"{w.name}: recorded and simulated waits",
        answer=[fidelity.sentence(results), *([again.sentence()] if again else []), *_brief(w)],
        tables=tables,
        cautions=_unsimulated(w),
        notes=[most_helpful(w), fidelity.EXPLAINED],
        data={
            "source": w.name,
            "not_simulated": not_simulated(w),
            "jobs": len(w),
            "recorded_mean_wait": float(recorded.mean()),
            "policies": [f.to_dict() for f in results],
        }
        | ({"repeats": again.to_dict()} if again else {}),
        sections=partial(_sections, waits, tables, [most_helpful(w), fidelity.EXPLAINED]),
        steps=[
            "Ask what another line of slurm.conf would have changed, and for whom: jobwise slurm what-if SITE "
            "--set bf_window=2880",
            "Where the simulation is far off, add the files that the notes name, and look again: jobwise slurm site SITE",
        ],
    )


def of_changes(
    w: Workload,
    changes: Sequence[Change],
    present: Fidelity | None,
    lines: Sequence[str],
    notes: Sequence[str],
    answer: str = "",
    left: Sequence[str] = (),
    first: str = "now",
) -> Result:
    """Return the result of changes at a site. `present`: how well the simulated present explains the record; `lines`: those of
    slurm.conf that were changed; `notes`: on the policies; `answer`: in place of a sentence on each change;
    `left`: which jobs are in no replay, and why; `first`: what the first row of the table is called."""
    trust, sure = _trust(present), present is None or trusted(present)
    doubt = [] if sure else ["These verdicts are of a simulation that does not explain the record: do not act on them."]
    several = ["Groups of jobs, change by change, are in the report (--report FILE)."] if len(changes) > 1 else []
    explained = [most_helpful(w), *notes, *several, EXPLAINED]
    title = f"{w.name}: {len(w):,} jobs, against the simulated present"
    tables, groups = _tables(title, changes, first), _groups([(c.name, c) for c in changes])
    return Result(
        title=f"{w.name}: what would have been",
        answer=[*doubt, *([answer] if answer else (c.sentence() for c in changes)), *_idle(w, lines, changes)],
        cautions=[*_unsimulated(w), *left, trust, *_brief(w)],
        tables=[*tables, *(groups if len(changes) == 1 else [])],  # of several changes the groups stand in the report
        notes=explained,
        data={"not_simulated": not_simulated(w), "source": w.name, "jobs": len(w), "changes": [c.to_dict() for c in changes]}
        | {"left_out": list(left)}
        | ({"answer": answer} if answer else {}),
        sections=partial(_sections, _waits(changes), [*tables, *groups], explained),
        steps=[
            *([] if len(w) < FEWEST else [TUNE]),
            "See how far the simulation can be trusted with these jobs: jobwise slurm fidelity SITE",
        ],
    )


def of_tuned(w: Workload, tuned: Tuned) -> Result:
    """Return the result of a search of settings."""
    changes = [*([tuned.test] if tuned.test else []), *tuned.others]
    trust = _trust(tuned.fidelity)
    notes = [most_helpful(w)]
    if any(x.startswith("SchedulerParameters") for x in tuned.proposed):
        notes.append("The SchedulerParameters that are proposed name what changes alone: keep the other words of yours.")
    if tuned.others:
        notes.append("The rows that name another scheduler show what its order would do; no line of slurm.conf gives it.")
    grouped = [("tuned", tuned.test)] if tuned.test else []
    notes += [EXPLAINED] if changes else []
    title = "the last 30 % of the jobs, against the simulated present"
    tables = [*_offers(tuned), *_tables(title, changes), *_groups(grouped)]
    return Result(
        title=f"{w.name}: what would have been",
        answer=[tuned.sentence()],
        cautions=[*_unsimulated(w), trust, *_brief(w)],
        tables=tables,
        notes=notes,
        lines=tuned.proposed,
        lines_title="Lines for slurm.conf",
        data={"source": w.name, "jobs": len(w), "trusted": tuned.trusted, "trust": trust, "gains": tuned.gains}
        | {"lines": tuned.proposed, "offers": [x._asdict() for x in tuned.offers], "tried": tuned.lines, "trials": tuned.trials}
        | {"fidelity": tuned.fidelity.to_dict() if tuned.fidelity else None, "unseen": [c.to_dict() for c in changes]},
        sections=partial(_sections, _waits(changes), tables, notes),
        steps=[
            *(["Put the lines into slurm.conf, and make them count: scontrol reconfigure"] if tuned.proposed else []),
            "Watch without touching anything whether waits go as predicted: jobwise slurm shadow",
            "Take a later export, and look whether the same settings still win: jobwise slurm what-if SITE --set NAME=VALUE",
        ],
    )


def _offers(tuned: Tuned) -> list[Table]:
    """The best candidate within each bound on waits, on the jobs that chose it."""
    rows = [[f"{x.bound:g}x", f"{x.change:+.0%}", f"{x.longest:.2f}", ", ".join(x.lines)] for x in tuned.offers]
    heads = ("bound", f"mean {tuned.metric}", "longest x", "lines of slurm.conf")
    return (
        [Table(heads, rows, "the best candidate within each bound, on the jobs that chose it (the first 70 %)")] if rows else []
    )


def _tables(title: str, changes: Sequence[Change], first: str = "now") -> list[Table]:
    """The changes, and who wins and who loses by those that are `grouped` (name, change). `first` names the first row."""
    if not changes:
        return []
    x = changes[0].present
    unit = x.unit
    waits, costs = ([c.format(unit.name) for c in columns] for columns in (HEAD, MORE))
    now = [first, unit.text(x.wait), f"{x.slowdown:,.1f}", "", unit.text(x.longest_wait), "1.00", ""]
    main = Table(waits, [now, *(c.row() for c in changes)], title)
    more = Table(costs, [[first, "", *x.cells(unit), ""], *(c.more() for c in changes)], "waits, use and cost")
    return [main, more, *_energy(changes, first)]


def _groups(grouped: Sequence[tuple[str, Change]]) -> list[Table]:
    """Who wins and who loses by a change, by its name."""
    return [Table(GROUPED, c.rows(), f"who wins, who loses: {name}") for name, c in grouped]


def _energy(changes: Sequence[Change], first: str) -> list[Table]:
    """What the schedules cost in energy, where it is known."""
    now, every = changes[0].present.energy, [c.after.energy for c in changes]
    if not now or not all(every):
        return []
    whole = next((x for x in every if "hours_above_cap" in x), now)
    rows = [energy.row(c.name, x, c.spent(energy.changed(whole)), whole) for c, x in zip(changes, every, strict=True)]
    return [Table(energy.heads("change", whole), [energy.row(first, now, None, whole), *rows], "energy")]


def _unsimulated(w: Workload) -> list[str]:
    names = not_simulated(w)
    return [f"Not simulated: {'; '.join(names)}."] if names else []


def _trust(present: Fidelity | None) -> str:
    """Return the fit of the simulated present to the recorded waits, in a sentence."""
    if present is None:
        return "No waits are recorded: how far the simulated present can be trusted is not known."
    return "The simulated present: " + fidelity.sentence([present])


def _brief(w: Workload) -> list[str]:
    """Return the length of the record in words, where it is too short for strong results."""
    hours = span(w) / 3600
    if hours >= BRIEF_H:
        return []
    text = f"{hours:.1f} hours" if hours >= 2 else f"{60 * hours:.0f} minutes"
    return [f"The jobs were submitted within {text}: no day and no week is among them; export at least two weeks of jobs."]


def _idle(w: Workload, lines: Sequence[str], changes: Sequence[Change]) -> list[str]:
    """Return the reason for no change, where weights of priority are set but have no effect."""
    site = w.cluster.site
    weights = [x for x in lines if x.lower().startswith("priority") and not x.lower().startswith("prioritytype")]
    if site is None or not (weights and site.settings["basic"][0]) or not all(c.idle for c in changes):
        return []
    missing = next((f" ({g.split(':')[0]} in this folder)" for g in site.guesses if "scontrol_config" in g), "")
    return [f"Weights count with PriorityType=priority/multifactor alone; here priority is first come, first served{missing}."]


# ------------------------------------------------------------------ the figure of a report

Waits = dict[str, tuple[np.ndarray, np.ndarray]]  # name -> (submits [J], waits [J]), s


def _waits(changes: Sequence[Change]) -> Waits:
    """The waits of the simulated present and of the first four changes."""
    both = [("now", changes[0].present), *((c.name, c.after) for c in changes[:4])] if changes else []
    first = [(name, x.records[0]) for name, x in both]
    return {name: (r.jobs["submit"], metrics.for_all(r, metrics.wait(r), 0.0)) for name, r in first}


def _sections(waits: Waits, tables: Sequence[Table], notes: Sequence[str], progress: Progress | None) -> list[Section]:
    from jobwise.report.figures import lines

    sections = []
    if waits:
        text = f"Mean wait of the jobs of each of {PARTS} parts of the time, by submit."
        means = {name: _means(*x) for name, x in waits.items()}
        span, most = (max(float(x[i].max(initial=0.0)) for x in means.values()) for i in (0, 1))
        (day, x), (hour, y) = _unit(span), _unit(most)
        curves = {name: ((t / day).tolist(), (w / hour).tolist()) for name, (t, w) in means.items()}
        sections.append(Section("Waits over time", text, figures=[lines(curves, x, f"mean wait, {y}")]))
    return [*sections, *(Section(t.title, "", [t]) for t in tables), Section("Notes", "", items=[x for x in notes if x])]


def _unit(most: float) -> tuple[float, str]:
    """Return (s, name) of the unit for times up to `most` s."""
    return next(
        x for x in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")) if most >= 2 * x[0] or x[0] == 1
    )


def _means(submit: np.ndarray, wait: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(middles, mean waits), s, of equal parts of the time that have jobs."""
    last = max(float(submit.max()), 1.0)
    part = np.minimum((submit / last * PARTS).astype(int), PARTS - 1)
    count = np.bincount(part, minlength=PARTS)
    middle, mean = (np.arange(PARTS) + 0.5) * last / PARTS, np.bincount(part, wait, PARTS) / np.maximum(count, 1)
    return middle[count > 0], mean[count > 0]
