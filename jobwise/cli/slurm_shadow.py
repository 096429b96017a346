"""`jobwise slurm watch`, `shadow`: a running cluster, live on a terminal, or in a journal for days."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import Json, policy_option, stoppable
from jobwise.cli.progress import progress
from jobwise.cli.slurm_retrain import Retrain, learning
from jobwise.cli.tables import complain, print_json, print_table, say
from jobwise.cli.web import Served, page, shown
from jobwise.cli.when import chances, headed, seconds, short, span
from jobwise.errors import InputError
from jobwise.live.cycle import Cycle
from jobwise.live.gains import gains
from jobwise.live.shadow import Shadow
from jobwise.live.sinks.journal import GROUPS, Journal
from jobwise.live.sinks.notices import Notices, read_notices
from jobwise.live.sinks.told import Told
from jobwise.live.sources import ClusterReader
from jobwise.policies.names import resolve
from jobwise.slurm.client import Slurm

Policy = Annotated[str, policy_option(help="Who would decide instead of Slurm.")]
Every = Annotated[str, typer.Option("--every", metavar="TIME", help="Between two cycles: 10s, 1m.")]
Cycles = Annotated[Optional[int], typer.Option("--cycles", min=1, help="End after N; by default never.")]
SHOWN, SEEN = 20, "seen"  # rows of a table; the folder of a state folder with what Slurm's commands printed last


def lines(tell):
    """A sink that tells each look on this terminal; what Slurm or the clock do wrong is said, and it goes on."""
    return Told(tell, say, lambda problem: complain(problem, "note"))


def _queue(shadow, turn) -> None:
    """Print the queue of a look: expected starts, what the policy would start now."""
    c, p = turn.now, turn.predicted
    clock = time.strftime("%H:%M:%S", time.gmtime(c.now + c.workload.origin))
    title = f"{clock} UTC: {len(c.waiting):,} wait, {len(c.out):,} may not start yet, {p.starts.running:,} run"
    columns = ["job", "user", "cpus", "limit", "waited", *headed(), "Slurm says", "policy"]
    print_table(title, columns, _table(shadow, p))
    if turn.problem:
        say(turn.problem)


def _news(turn) -> None:
    """Say in a line what a look has brought."""
    news = ", ".join(f"{len(ids):,} {kind}" for kind, ids in turn.events.items() if ids) or "nothing new"
    say(f"cycle {turn.n:,}: {len(turn.now.waiting):,} wait; {news}")


def _table(shadow, p) -> list[list[str]]:
    """The cells of the queue, as the predictions order it."""
    rank, out = {x["job"]: k + 1 for k, x in enumerate(shadow.order)}, []
    for x in p.rows()[:SHOWN]:
        wish = "starts it now" if x["job"] in shadow.begin else f"rank {rank[x['job']]}" if x["job"] in rank else ""
        plan = "" if x["slurm"] is None else short(x["slurm"])
        out.append([str(x["job"]), x["user"], f"{x['cpus']:,}", short(x["limit"]), short(x["waited"]), *chances(x), plan, wish])
    return out


@grouped
def watch(
    policy: Policy = "jobwise",
    every: Every = "30s",
    cycles: Cycles = None,
    served: Served = Served(),
) -> None:
    """Watch this cluster: queue, expected starts, what a policy would start now. Only reads.

    Examples:
        jobwise slurm watch
    """
    chosen, pause, shadow = resolve(policy), seconds(every, "--every"), Shadow()
    with closing(ClusterReader(Slurm())) as reader, stoppable("nothing is kept"), page(served) as board:
        sinks = [shadow, *shown(board, shadow), lines(lambda turn: _queue(shadow, turn))]
        Cycle(reader, chosen, sinks).run(pause, cycles)


@grouped
def shadow(
    state: Annotated[str, typer.Option("--state", help="A folder for the journal.")],
    policy: Policy = "jobwise",
    every: Every = "1m",
    cycles: Cycles = None,
    report: Annotated[bool, typer.Option("--report", help="Only say what the journal tells so far.")] = False,
    retrain: Retrain = None,
    notify: Annotated[Optional[str], typer.Option("--notify", help="A file of who is sent a message when.")] = None,
    served: Served = Served(),
    as_json: Json = False,
) -> None:
    """Follow this cluster for days, writing nothing to it: a journal of predictions, and of what a policy wanted.

    Examples:
        jobwise slurm shadow --state shadow
    """
    pause, notices = seconds(every, "--every"), [Notices(read_notices(notify))] if notify else []
    if report and not (Path(state) / "journal.sqlite").is_file():
        raise InputError(f"{state}: holds no journal; `jobwise slurm shadow --state {state}` begins one")
    with closing(Journal(Path(state), reads=report)) as journal:
        if not report:
            with (
                stoppable(f"jobwise slurm shadow --state {state} goes on"),
                learning(state, policy, retrain) as learns,
                closing(ClusterReader(Slurm(), kept=Path(state) / SEEN)) as reader,
                page(served) as board,
            ):
                follower = Shadow(journal)
                sinks = [follower, *shown(board, follower), lines(_news), *notices, learns]
                Cycle(reader, learns.policy, sinks).run(pause, cycles)
        _told(journal, as_json, gained(Path(state), journal, policy) if report else None)


def gained(state: Path, journal, policy: str):
    """What the policy would have gained since the journal began; {"problem": …} where that is unknown."""
    chosen = resolve(policy)
    try:
        with progress("replay") as step:
            return gains(state / SEEN, journal.rows("select min(time) from cycle")[0][0] or 0.0, chosen, step)
    except InputError as error:
        return {"problem": str(error)}


def _told(journal, as_json: bool, change=None) -> None:
    """Say what the journal tells; `change`: what the policy would have gained, or why that is not known."""
    score, wish = journal.score(), journal.agreement()
    first, count = journal.rows("select min(time), count(*) from cycle")[0]
    if as_json:
        groups = {f"by_{by}": journal.scores(by) for by in GROUPS}
        gains = {} if change is None else {"gains": change if isinstance(change, dict) else change.to_dict()}
        print_json({"cycles": count, "starts": score | groups, "policy": wish} | gains)
        return
    say(f"{count:,} cycle{'s' * (count != 1)}" + (f" in {span(journal.last - first)}" if count > 1 else ""))
    if score["predictions"]:
        beside = f", Slurm's own plans {span(score['slurm_error'])}" if "slurm_error" in score else ""
        error = span(score.get("error_planned", score["error"]))
        say(f"{score['predictions']:,.0f} predictions of jobs that have started: median error {error}{beside}")
        say(f"starts within the 80 % interval: {score['cover80']:.0%}; within the 90 % interval: {score['cover90']:.0%}")
        for by in GROUPS:
            _by(journal.scores(by), by)
    if wish["started"]:
        say(f"of {wish['started']:,.0f} jobs that Slurm started, the policy wanted {wish['wanted']:.0%} to start then, too")
    if change is None:
        say("what it would have done to waits: --report replays the jobs that have ended since")
    elif isinstance(change, dict):
        say(change["problem"])
    else:
        say("the jobs that ended since, replayed under the site's Slurm and under the policy's order in its place:")
        say(change.sentence())
        columns = ["of", "group", "jobs", "wait now, s", "then", "change"]
        print_table("who would have waited for how long", columns, change.rows())


def _by(scores: dict[str, dict[str, float]], by: str) -> None:
    """A table of how well starts were predicted, where there is more than one partition, account or user."""
    if len(scores) < 2:
        return
    rows = []
    for name, x in list(scores.items())[:SHOWN]:
        plan = span(x["slurm_error"]) if "slurm_error" in x else ""
        rows.append(
            [name or "none", f"{x['predictions']:,.0f}", span(x["error"]), plan, f"{x['cover80']:.0%}", f"{x['cover90']:.0%}"]
        )
    columns = [by, "predictions", "median error", "Slurm's own", "in 80 %", "in 90 %"]
    print_table(f"starts foretold, by {by}", columns, rows)
