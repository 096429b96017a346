"""The command line: simulate · compare · trace, and in `cli_learn.py` train and its kin. Wrong use: one line, exit code 2."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Optional

import typer

from jobwise.cli_learn import register
from jobwise.errors import InputError, plain, unknown
from jobwise.terminal import (
    Force,
    Jobs,
    Json,
    Kill,
    Load,
    Log,
    Procs,
    Seed,
    check_outputs,
    left_out,
    needs,
    noticed,
    open_log,
    print_comparison,
    print_json,
    print_origins,
    print_table,
    progress,
    say,
)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Replay a job log under other schedulers, compare them honestly, learn better ones.",
)
trace = typer.Typer(no_args_is_help=True, help="Look at, convert and generate job logs.")
app.add_typer(trace, name="trace")

COUNTS = ("jobs", "users", "processors", "preemptions", "failed")
DEFAULT = ["fcfs+easy", "sjf+easy", "saf+easy", "wfp3+easy", "unicef+easy", "f1+easy", "saf+easy+guard24h", "fcfs+conservative"]


def main() -> None:
    """Entry point: errors of the user become one line and exit code 2."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit code: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        code = app(arguments, prog_name="jobwise", standalone_mode=False) or 0
        if code == 130:
            raise KeyboardInterrupt
        return code
    except InputError as error:
        print(f"jobwise: {plain(' '.join(str(error).split()))}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print("jobwise: interrupted; nothing was written", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        print(f"jobwise: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("jobwise: out of memory; try --jobs with fewer jobs", file=sys.stderr)
        return 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # the usage errors of typer's parser, whichever it is built on
            raise
        print(f"jobwise: {_told(error)}" if arguments else "", file=sys.stderr)
        return 2


def _told(error) -> str:
    """What typer's parser says; for an unknown command with the nearest ones."""
    text = plain(" ".join(error.format_message().split()))
    if found := re.match(r"No such command '(.*?)'", text):
        groups = [[f"{g.name} {c.name}" for c in g.typer_instance.registered_commands] for g in app.registered_groups]
        known = [c.name or c.callback.__name__ for c in app.registered_commands] + sum(groups, [])
        return str(unknown("command", found[1], known))
    return text


@app.command()
def simulate(
    log: Log,
    policy: Annotated[
        Optional[list[str]],
        typer.Option("--policy", "-p", help="ORDER[+BACKFILL][+PLACEMENT][+GUARD], or a run folder. [default: fcfs+easy]"),
    ] = None,
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    kill: Kill = False,
    seed: Seed = 0,
    out: Annotated[Optional[str], typer.Option("--out", "-o", help="Write the schedule: .csv, .parquet, or .swf.")] = None,
    evalys: Annotated[Optional[str], typer.Option("--evalys", help="Write a jobs.csv that evalys reads.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Replay a log under one scheduler, as logged, and print its metrics."""
    from jobwise import export, metrics
    from jobwise.policies.names import resolve
    from jobwise.simulate import simulate as replay
    from jobwise.workloads.transform import recorded

    if policy and len(policy) > 1:
        raise InputError(f"simulate takes one policy, not {len(policy)}; `jobwise compare` takes several")
    policy = resolve((policy or ["fcfs+easy"])[0])
    check_outputs(log, out, evalys, force=force)
    if out:
        export.writer(out)
    w = open_log(log, procs, jobs, load)
    with progress(f"replaying {len(w):,} jobs") as show:
        r = replay(w, policy, seed=seed, kill_at_walltime=kill, progress=show)
    summary = r.summary()
    if out:
        export.write(r, out)
    if evalys:
        export.write_evalys(r, evalys)
    if as_json:
        found = {"workload": w.name, "policy": r.policy, "dropped": w.dropped, "notes": w.notes, "summary": summary}
        print_json(found | {"recorded": recorded(w)})
        return
    noticed(w)
    site = recorded(w) or {}
    rows = []
    for k, v in summary.items():
        row = [k.replace("_", " "), f"{v:,.0f}" if k in COUNTS else f"{v:,.3f}", metrics.UNITS.get(k, "")]
        rows.append(row + ([f"{site[k]:,.3f}" if k in site else ""] if site else []))
    machine = f"{w.cluster.processors:,} processors"
    columns = ["metric", "value", "unit"] + (["as recorded"] if site else [])
    print_table(f"{w.name} under {r.policy}: {len(w):,} jobs, {machine} (left out: {left_out(w)})", columns, rows)
    print("bounded slowdown with tau = 10 s")


@app.command()
def compare(
    log: Log,
    policy: Annotated[
        Optional[list[str]], typer.Option("--policy", "-p", help="Repeat it; the first is the reference.")
    ] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    kill: Kill = False,
    window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None,
    split: Annotated[
        Optional[float], typer.Option("--split", help="Compare on what comes after this share of the jobs, e.g. 0.7.")
    ] = None,
    shakes: Annotated[
        int, typer.Option("--shakes", min=0, max=1000, help="Shaken replicas of windows, and of the log (at most 4).")
    ] = 8,
    shake_s: Annotated[
        Optional[float], typer.Option("--shake-s", min=0, help="Move submits by so many seconds. [default: by the log's gaps]")
    ] = None,
    origins: Annotated[
        Optional[int],
        typer.Option(
            "--origins", min=1, max=6, help="Choose on the jobs before t, judge on the tenth after it; t = 0.4 … 0.9."
        ),
    ] = None,
    day: Annotated[Optional[float], typer.Option("--day", help="Day of the Gantt chart (default: the busiest).")] = None,
    force: Force = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare schedulers on the same jobs: the whole log and windows of it, with intervals.

    With --split the best rule and guard of the earlier jobs, and of the later ones in hindsight, join in; with --origins
    the rule chosen at each origin is the reference. Where many jobs outlive their request, both ways are shown.
    """
    from jobwise.compare import both_ways
    from jobwise.origins import origins as roll
    from jobwise.policies.names import resolve

    policies = policy or DEFAULT
    if origins is not None and (split is not None or report):
        raise InputError("--origins prints one table over all origins; --split and --report are for one comparison")
    if split is not None and not 0 < split < 1:
        raise InputError(f"--split {split:g}: a share of the jobs between 0 and 1 is expected, e.g. 0.7")
    resolved = [resolve(p) for p in policies]
    check_outputs(log, report, force=force, ending=".html .htm")
    w = open_log(log, procs, jobs, load)
    told = {"window_jobs": window, "shakes": shakes, "shake_s": shake_s, "seed": seed, "kill_at_walltime": kill}
    if not as_json:
        noticed(w)
    if origins is not None:
        with progress(f"{origins} origins, {len(policies)} schedulers") as show:
            o = roll(w, resolved, origins, progress=show, **told)
        if as_json:
            print_json(o.to_dict())
        else:
            print_origins(o)
        return
    with progress(f"comparing {len(policies)} schedulers") as show:
        c, other = both_ways(w, resolved, since=split or 0.0, progress=show, **told)
    if report:
        from jobwise.report.html import write_report

        with progress("drawing the report") as show:
            write_report(c, report, day=day, other=other, force=True, progress=show)
    if as_json:
        print_json(c.to_dict() | ({"other_way": other.to_dict()} if other else {}))
        return
    print_comparison(c)
    if other:
        say(f"\nThe same with jobs {'that run on' if kill else 'ended at their request (--kill)'}:")
        print_comparison(other)
    if report:
        print(f"report: {report}")


@app.command()
def policies(as_json: Json = False) -> None:
    """The names that policies are made of, each with a line."""
    from jobwise.policies.described import described

    found = described()
    if as_json:
        print_json(found)
        return
    for part, names in found.items():
        print_table(part, ["name", "what it does"], [[n, text] for n, text in names.items()], left=2)
    say("A policy is ORDER[+BACKFILL][+PLACEMENT][+GUARD], for example saf+easy+guard24h; a run folder stands for an order.")


@trace.command("info")
def info(log: Log, procs: Procs = None, as_json: Json = False) -> None:
    """What is in a log: counts, gaps, run times, sizes, load, quality of the users' estimates."""
    from jobwise.workloads.transform import date, recorded, span, statistics

    w = open_log(log, procs)
    found, site = statistics(w), recorded(w)
    if as_json:
        told = {"workload": w.name, "dropped": w.dropped, "notes": w.notes, "statistics": found, "recorded": site}
        print_json(told | {"first_submit": date(w, 0.0), "last_submit": date(w, span(w)), "header": list(w.header)})
        return
    noticed(w)
    units = {"span_days": "days", "gap": "s", "runtime": "s", "size": "processors"}
    rows = [
        [
            k.replace("_", " "),
            f"{v:,.0f}" if k in COUNTS else f"{v:,.3f}",
            units.get(k, "" if k.startswith("cv") else units.get(k.split("_")[-1], "")),
        ]
        for k, v in found.items()
    ]
    if date(w, 0.0):
        rows = [["first submit", date(w, 0.0), ""], ["last submit", date(w, span(w)), ""], *rows]
    if site:
        rows += [[f"recorded {k.replace('_', ' ')}", f"{v:,.3f}", "s" if "wait" in k else ""] for k, v in site.items()]
    print_table(f"{w.name} (left out: {left_out(w)})", ["what", "value", "unit"], rows)


@trace.command("convert")
def convert(
    log: Log,
    out: Annotated[str, typer.Argument(metavar="OUT", help="SWF file to write (.gz, .xz), or '-'.")],
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    begin: Annotated[Optional[float], typer.Option("--begin", help="Days from the first submit: window begins.")] = None,
    end: Annotated[Optional[float], typer.Option("--end", help="Days from the first submit: window ends.")] = None,
    split: Annotated[
        Optional[float], typer.Option("--split", help="Split in time: OUT gets the first share, OUT.rest the others.")
    ] = None,
    replicate: Annotated[
        int, typer.Option("--replicate", min=1, max=10_000, help="Copies of every job, on a machine so many times as large.")
    ] = 1,
    shake_s: Annotated[float, typer.Option("--shake-s", min=0, help="Move submits by up to so many seconds.")] = 0.0,
    merge: Annotated[Optional[list[str]], typer.Option("--merge", help="Another log to merge in; repeat it.")] = None,
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Write a log as SWF, transformed on the way."""
    from jobwise.workloads import transform
    from jobwise.workloads.swf import write_swf

    check_outputs(log, out, *(f"{out}.rest" for _ in [split] if split is not None and out != "-"), force=force)
    w = open_log(log, procs, jobs)
    if merge:
        w = transform.merge([w, *(open_log(m, None) for m in merge)])
    if begin is not None or end is not None:
        w = transform.window(w, (begin or 0) * 86400, float("inf") if end is None else end * 86400)
    if replicate > 1:
        w = transform.replicate(w, replicate, seed=seed)
    if shake_s:
        w = transform.shake(w, shake_s, seed)
    if load is not None:
        w = transform.scale_load(w, load)
    if split is not None:
        if out == "-":
            raise InputError("a split writes two files; name one instead of '-'")
        w, rest = transform.split(w, split)
        write_swf(rest, f"{out}.rest")
    write_swf(w, out)
    if out != "-":
        print(f"{out}: {len(w):,} jobs (left out: {left_out(w)})")


@trace.command("generate")
def generate(
    out: Annotated[str, typer.Argument(metavar="OUT", help="SWF file to write (.gz, .xz), or '-'.")],
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = 10_000,
    procs: Annotated[int, typer.Option("--procs", min=2, max=2**31 - 1)] = 256,
    load: Load = None,
    classes: Annotated[str, typer.Option("--classes", help="'typeless', or 'two': batch and interactive.")] = "typeless",
    estimates: Annotated[str, typer.Option("--estimates", help="'exact', or 'users': too long and round.")] = "exact",
    users: Annotated[int, typer.Option("--users", min=0, max=10**7)] = 0,
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Generate a log with the Lublin-Feitelson model."""
    from jobwise.workloads.lublin import lublin
    from jobwise.workloads.swf import write_swf

    check_outputs("-", out, force=force)
    write_swf(lublin(jobs, procs, seed, classes=classes, load=load, estimates=estimates, users=users), out)
    if out != "-":
        print(f"{out}: {jobs:,} jobs for {procs:,} processors, seed {seed}")


@trace.command("forecast")
def forecast(log: Log, procs: Procs = None, jobs: Jobs = None, as_json: Json = False) -> None:
    """How well can run times be foretold on this log? Requests, history, boosted quantiles, judged on the last 30 %."""
    from jobwise.forecast import judge

    needs("forecast", "lightgbm")
    w = open_log(log, procs, jobs)
    found = judge(w)
    if as_json:
        print_json({"workload": w.name, "forecasts": found})
        return
    rows = [
        [
            f["forecast"],
            f"{f['accuracy']:.3f}",
            f"{f['median_factor']:.2f}",
            f"{f['exceeded']:.1%}",
            "" if f["coverage"] != f["coverage"] else f"{f['coverage']:.1%}",
            " ".join(f"{x:.2f}" for x in f["by_quarter"]),
        ]
        for f in found
    ]
    columns = ["forecast", "accuracy", "median factor", "exceeded", "in 80 % interval", "accuracy by quarter"]
    print_table(f"{w.name}: run times of the last 30 %, foretold at submit", columns, rows)
    print("accuracy: mean of min(forecast / run, run / forecast); exceeded: jobs that ran longer than foretold")


@trace.command("sacct-command")
def sacct_command(
    start: Annotated[str, typer.Option("--start", help="First day, YYYY-MM-DD.")] = "2026-01-01",
    end: Annotated[str, typer.Option("--end", help="Last day, or 'now'.")] = "now",
) -> None:
    """Print the command that writes a Slurm site's job log in the form `jobwise` reads."""
    from jobwise.workloads.sacct import command

    print(command(start, end))


def _version(value: bool) -> None:
    if value:
        from jobwise import __version__

        print(f"jobwise {__version__}")
        raise typer.Exit()


@app.callback()
def options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Replay a job log under other schedulers, and compare them honestly."""


register(app)

if __name__ == "__main__":
    main()
