"""The commands that learn: train · evaluate · explain · export · reproduce. Typed as the others in `cli.py`."""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli_grid import GRIDS, evaluate_grid, open_grid_log, register_watch
from jobwise.errors import InputError
from jobwise.terminal import (
    LOG_HELP,
    Jobs,
    Json,
    Load,
    Log,
    Procs,
    Seed,
    check_outputs,
    open_log,
    print_comparison,
    print_json,
    print_table,
    progress,
)

Policy = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or a policy file.")]


def _needs(extra: str, *modules: str) -> None:
    """Raises InputError where a package of an extra is missing."""
    from importlib.util import find_spec

    for name in modules:
        if find_spec(name) is None:
            raise InputError(f"this command needs {name}: pip install 'jobwise[{extra}]'")


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command()
    def train(
        system: Annotated[str, typer.Argument(help="perjob, sem, dras, rlscheduler, search, deeprm or cush.")],
        log: Annotated[Optional[str], typer.Argument(metavar="LOG", help=f"{LOG_HELP} deeprm and cush: generated.")] = None,
        *,
        out: Annotated[str, typer.Option("--out", "-o", help="Run folder to make, e.g. runs/mine.")],
        preset: Annotated[str, typer.Option("--preset", help="smoke (seconds), small (minutes), paper.")] = "small",
        config: Annotated[Optional[str], typer.Option("--config", help="TOML file with keys to change.")] = None,
        seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="Train so many times; the best is kept.")] = 1,
        seed: Annotated[Optional[int], typer.Option("--seed", min=0, max=2**30, help="Default: 0.")] = None,
        choices: Annotated[Optional[int], typer.Option("--choices", min=1, help="Budget: choices made.")] = None,
        max_wait: Annotated[
            Optional[str], typer.Option("--max-wait", help="search: longest wait allowed, e.g. 1.2x that of FCFS with EASY.")
        ] = None,
        device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps or auto.")] = "auto",
        threads: Annotated[Optional[int], typer.Option("--threads", min=1, max=1024, help="Default: 2.")] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
        procs: Procs = None,
        jobs: Jobs = None,
        load: Load = None,
        as_json: Json = False,
    ) -> None:
        """Learn a policy from the first 70 % of a log (deeprm, cush: or from generated jobs); the rest is for `evaluate`."""
        _needs("learn", "pydantic", *([] if system == "search" else ["torch", "gymnasium", "tensorboard"]))
        from jobwise.systems import configure

        if log is None and system not in GRIDS:
            raise InputError(f"which log is {system} to learn from? jobwise train {system} LOG --out {out}")
        if system in GRIDS and not (procs is None and jobs is None and load is None):
            raise InputError(f"{system} takes a log as it is: --procs, --jobs and --load are for the others")
        w = None if log is None else open_grid_log(log) if system in GRIDS else open_log(log, procs, jobs, load)
        settings = configure(system, w, preset)
        own = _toml(config)
        for key in ("learner", "encoding"):  # tables add to the system's
            if isinstance(own.get(key), dict) and hasattr(settings, key):
                own[key] = getattr(settings, key) | own[key]
        told = {"seed": seed, "threads": threads, "choices": choices, "max_wait": _times(max_wait)}
        told = {k: v for k, v in told.items() if v is not None}
        if choices is not None and hasattr(settings, "episodes"):
            told["episodes"] = None
        settings = settings.changed(**(own | told))
        if not out or "+" in out:
            raise InputError(f"--out {out!r}: a run folder needs a name, without '+', which separates the options of a policy")
        if system == "search":
            from jobwise.systems.search import train as learn
        elif system in GRIDS:
            from jobwise.train import pick_device
            from jobwise.train_grid import train as learn

            device = pick_device(device)
        else:
            from jobwise.train import pick_device
            from jobwise.train import train as learn

            device = pick_device(device)
        if not as_json:
            what = w.name if w is not None else "generated jobs"
            print(f"training {system} on {what} ({preset}); validation against the best fixed rule", flush=True)
        with progress(f"training {system}") as show:
            last: dict = {}

            def report(k: int, line: dict) -> None:
                last.update(line)
                if "validation" in line and not as_json and show is None:
                    print(_line(k, line), flush=True)
                if show:
                    what = (
                        f"seed {k}: {last.get('best', float('nan')):.2f} (best rule {last.get('best_rule', float('nan')):.2f})"
                    )
                    show(int(1000 * (k + line["part"])), 1000 * seeds, what)

            policies = learn(settings, w, out, seeds=seeds, device=device, resume=resume, report=report)
        rows = [p.about | {"policy": str(Path(out) / f"seed{k}" if seeds > 1 else Path(out))} for k, p in enumerate(policies)]
        if as_json:
            print_json({"system": system, "config": settings.model_dump(), "runs": rows})
            return
        for r in rows:
            rule, value = r["best_rule"]
            text = f"validation score {r['validation']:.2f}, best fixed rule {rule} {value:.2f}"
            print(f"{r['policy']}: {text} ({r['choices']:,} choices)")
        given = {"--procs": procs, "--jobs": jobs, "--load": load}
        told = [f"{k} {v}" for k, v in given.items() if v is not None]
        print(" ".join(["now: jobwise evaluate", out, *([log] if log else []), *told]))

    @app.command()
    def evaluate(
        run: Policy,
        log: Annotated[Optional[str], typer.Argument(metavar="LOG", help=f"{LOG_HELP} deeprm and cush: generated.")] = None,
        policy: Annotated[Optional[list[str]], typer.Option("--policy", "-p", help="Rules to compare with.")] = None,
        report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
        whole: Annotated[bool, typer.Option("--whole", help="The whole log, also what was learnt from.")] = False,
        window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None,
        shakes: Annotated[Optional[int], typer.Option("--shakes", min=0, max=1000, help="Default: 4.")] = None,
        procs: Procs = None,
        jobs: Jobs = None,
        load: Load = None,
        seed: Seed = 0,
        as_json: Json = False,
    ) -> None:
        """Compare a trained policy with the rules on the part of a log that it has not seen (the last 30 %)."""
        from jobwise.compare import compare
        from jobwise.policies.grid import GridPolicy
        from jobwise.policies.neural import public_hash, resolve_trained, rules
        from jobwise.workloads.transform import SEEN, split, unseen

        trained, name = resolve_trained(run)
        if isinstance(trained, GridPolicy):
            if whole or any(x is not None for x in (window, shakes, procs, jobs, load)):
                raise InputError(f"{run}: plays on a grid of time; only --policy, --seed and --json are for it")
            evaluate_grid(trained, log, policy, report, seed, as_json)
            return
        if log is None:
            raise InputError(f"on which log? jobwise evaluate {run} LOG")
        check_outputs(log, report)
        names = policy or rules(trained)
        w = open_log(log, procs, jobs, load)
        part = w if whole else unseen(w)
        if len(part) < 8:
            raise InputError(f"{w.name}: {len(part)} unseen jobs are too few to compare anything on")
        about = trained.about
        same = about.get("log") == w.name
        if whole or (same and (about.get("whole_log") or about.get("log_sha256") != public_hash(w))):
            print(f"note: {name} may have learnt from some of these jobs", file=sys.stderr)
        with progress(f"comparing {len(names) + 1} schedulers") as show:
            before = None if whole else split(w, SEEN)[0]
            bound = about.get("max_wait") or float("inf")
            c = compare(
                part,
                [*names, trained],
                train=before,
                max_wait=bound,
                window_jobs=window,
                shakes=4 if shakes is None else shakes,
                seed=seed,
                progress=show,
            )
        found, fair = _against(c, len(names), bound)
        if report:
            from jobwise.report.html import write_report

            curve = Path(name) / "metrics.jsonl"
            write_report(c, report, curve=curve if curve.is_file() else None)
        if as_json:
            print_json(c.to_dict() | {"against_best_rule": found, "against_fair_best": fair})
            return
        print_comparison(c)
        for x in (fair, found):
            if x:
                print(x["verdict"])
        if report:
            print(f"report: {report}")

    @app.command()
    def explain(
        run: Policy,
        log: Log,
        choice: Annotated[
            int, typer.Option("--choice", min=0, help="Which instant with at least two jobs queued, from 0.")
        ] = 0,
        top: Annotated[int, typer.Option("--top", min=1)] = 8,
        procs: Procs = None,
        jobs: Jobs = None,
        as_json: Json = False,
    ) -> None:
        """Why does the policy choose this job? Scores, and the features that moved them."""
        from jobwise.policies.neural import resolve_trained
        from jobwise.sim.simulation import Simulation

        policy, _ = resolve_trained(run)
        if not hasattr(policy, "order") and not hasattr(policy, "explain"):
            raise InputError(f"{run}: plays on a grid of time; `jobwise watch` shows what it does")
        if not hasattr(policy, "explain"):
            weights = ", ".join(f"{k} {v:+.2f}" for k, v in policy.order.terms().items())
            raise InputError(f"{run}: a log-linear order explains itself, smaller first: {weights}")
        w = open_log(log, procs, jobs)
        sim, seen = Simulation(w, single_events=policy.act.single_events), -1
        while seen < choice:
            if not sim.advance():
                raise InputError(f"{w.name}: there are {seen + 1} such instants; --choice counts from 0")
            view = sim.view()
            found = policy.explain(view) if len(view.queue) > 1 else []
            seen += len(found) > 1
            if seen < choice:
                sim.apply(policy.decide(view), policy.name)
        if as_json:
            print_json({"policy": policy.name, "time": view.now, "free": int(view.free.sum()), "jobs": found})
            return
        rows = []
        for f in found[:top]:
            moved = sorted(f["moved"].items(), key=lambda x: -abs(x[1]))[:3]
            job = view.jobs[f["job"]]
            rows.append(
                [
                    str(f["job"]),
                    f"{f['score']:+.3f}",
                    f"{int(job['request'][0]):,}",
                    f"{job['walltime'] / 3600:,.2f}",
                    f"{(view.now - job['submit']) / 3600:,.2f}",
                    ", ".join(f"{k} {v:+.2f}" for k, v in moved),
                ]
            )
        state = f"{int(view.free.sum())} free, {len(view.queue)} queued"
        title = f"{w.name} at {view.now / 3600:,.2f} h: {state}; chosen: job {found[0]['job']}"
        print_table(title, ["job", "score", "processors", "walltime h", "waited h", "moved by"], rows)

    _reproduce(app)
    register_watch(app)

    @app.command("export-onnx")
    def export_onnx(run: Policy, out: Annotated[str, typer.Argument(metavar="OUT", help="ONNX file to write.")]) -> None:
        """Write a policy's network as ONNX, its metadata included."""
        _needs("learn", "onnx")
        from jobwise.files import check_writable, write_whole
        from jobwise.policies.neural import NeuralPolicy
        from jobwise.policies.neural import load as load_policy
        from jobwise.policies.onnx import to_onnx

        check_writable(out)
        found = load_policy(run)
        if not isinstance(found, NeuralPolicy):
            raise InputError(f"{run}: is a log-linear order, or plays on a grid of time; there is no network per job to export")
        write_whole(out, to_onnx(found))
        if out != "-":
            print(f"{out}: written")


def _reproduce(app: typer.Typer) -> None:
    @app.command()
    def reproduce(
        study: Annotated[str, typer.Argument(help="quality, sem, rlscheduler, learners, deeprm or cush.")],
        out: Annotated[str, typer.Option("--out", "-o", help="Folder for finished pieces, runs and report.html.")],
        logs: Annotated[Optional[str], typer.Option("--logs", help="Folder with the SWF logs; cush: with GPU logs.")] = None,
        preset: Annotated[str, typer.Option("--preset", help="smoke, small or paper.")] = "small",
        seeds: Annotated[Optional[int], typer.Option("--seeds", min=1, max=100, help="Default: 5; quality makes 1.")] = None,
        threads: Annotated[int, typer.Option("--threads", min=1, max=1024)] = 2,
    ) -> None:
        """Run a published study, its numbers beside ours, in one report. Interrupted, it goes on where it stopped."""
        _needs("learn", "pydantic", *([] if study == "quality" else ["torch", "gymnasium", "tensorboard"]))
        _needs("report", "matplotlib", "jinja2")
        from jobwise.experiments import reproduce as run_study
        from jobwise.report.study import write_study

        def say(text: str) -> None:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

        seeds = seeds or (1 if study == "quality" else 5)
        sections = run_study(study, logs, out, preset=preset, seeds=seeds, threads=threads, say=say)
        for section in sections:
            print(f"\n{section.title}\n{section.text}")
            for table in section.tables:
                print_table("", list(table.columns), [list(r) for r in table.rows])
        command = f"jobwise reproduce {study} --preset {preset} --seeds {seeds} --threads {threads}"
        write_study(command, sections, Path(out))
        print(f"report: {Path(out) / 'report.html'} and report.md")


def _times(text: str | None) -> float | None:
    """1.2 of "1.2x" or "1.2"."""
    if text is None:
        return None
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise InputError(f"--max-wait {text!r}: a factor is expected, e.g. 1.2x") from None


def _toml(path: str | None) -> dict:
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no TOML: {error}") from None


def _line(k: int, line: dict) -> str:
    return (
        f"  seed {k}, {line['part']:4.0%}: score {line['validation']:8.2f}, best {line['best']:8.2f}, "
        f"best rule {line['best_rule']:8.2f}, {line['choices']:,} choices"
    )


def _against(c, ours: int, bound: float) -> tuple[dict | None, dict | None]:
    """Policy `ours` against (the best in hindsight, the fair best), in numbers and words: on windows; with a bound on waits in
    the continuous replay, and there against those that keep it."""
    from jobwise.compare import between

    fcfs = next((s["max_wait"] for n, s in zip(c.policies, c.whole, strict=True) if n == "fcfs+easy"), None)
    keeps = fcfs is not None and bound < float("inf")

    def one(rule: int, what: str) -> dict:
        change, low, high = c.change_whole(ours, rule) if keeps else c.change(ours, base=rule)
        word = "lower" if high < 0 else "higher" if low > 0 else "not to be told from it"
        text = f"{c.policies[ours]} against {what}, {c.policies[rule]}: mean bounded slowdown {change:+.0%}"
        text += f"{between(low, high, '+.0%')} ({word})"
        longest = c.whole[ours]["max_wait"] / max(c.whole[rule]["max_wait"], 1.0)
        if keeps:
            mine, its = (c.whole[p]["max_wait"] / max(fcfs, 1.0) for p in (ours, rule))
            text += (
                f" in the continuous replay; longest wait {mine:.2f} and {its:.2f} times that of fcfs+easy (at most {bound:g} "
            )
            text += "was asked for)." if mine <= bound else "was asked for: broken)."
        else:
            text += f"; longest wait in the continuous replay {longest:.1f} times."
        names = {"rule": c.policies[rule], "change": change, "low": low, "high": high}
        return names | {"longest_wait_ratio": longest, "verdict": text}

    others = [p for p in range(len(c.policies)) if p != ours]
    best = min(others, key=lambda p: c.windows["bounded_slowdown"][p].mean())
    if keeps:
        within = [p for p in others if c.whole[p]["max_wait"] <= bound * fcfs]
        best = min(within, key=lambda p: c.whole[p]["bounded_slowdown"])
    fair = None if c.fair is None else one(c.fair, "the fair best rule")
    return one(best, "the best in hindsight"), fair
