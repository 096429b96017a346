"""The commands that learn: train · evaluate · explain · export · reproduce. Typed as the others in `cli.py`."""

from __future__ import annotations

import json
import sys
import time
import tomllib
from pathlib import Path
from typing import Annotated, Optional

import numpy as np
import typer

from jobwise.cli_grid import GRIDS, evaluate_grid, open_grid_log, register_watch
from jobwise.errors import InputError, unknown
from jobwise.terminal import (
    LOG_HELP,
    Force,
    Jobs,
    Json,
    Kill,
    Load,
    Log,
    Procs,
    Seed,
    check_outputs,
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

Policy = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or a policy file.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command()
    def train(
        system: Annotated[str, typer.Argument(help="perjob, sem, dras, dras2, rlscheduler, search, deeprm or cush.")],
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
        needs("learn", "pydantic", *([] if system == "search" else ["torch", "gymnasium", "tensorboard"]))
        from jobwise.systems import SYSTEMS, configure

        if system not in SYSTEMS:
            if log in SYSTEMS:
                raise InputError(f"the system comes first: jobwise train {log} {system} --out {out}")
            raise unknown("system", system, SYSTEMS)
        if max_wait is not None and system != "search":
            raise InputError(f"--max-wait is for search; {system} learns from rewards (its configuration has bounded_wait)")
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
                    best, rule = last.get("best", float("nan")), last.get("best_rule", float("nan"))
                    what = f"seed {k}: score {best:.2f} (best rule {rule:.2f})"
                    show(int(1000 * (k + line["part"])), 1000 * seeds, what)

            policies = learn(settings, w, out, seeds=seeds, device=device, resume=resume, report=report)
        rows = [p.about | {"policy": str(Path(out) / f"seed{k}" if seeds > 1 else Path(out))} for k, p in enumerate(policies)]
        if as_json:
            print_json({"system": system, "config": settings.model_dump(), "runs": rows})
            return
        for r in rows:
            rule, value = r["best_rule"]
            text = f"validation score {r['validation']:.2f}, best fixed rule {rule} {value:.2f}"
            behind = "; smaller is better: the rule is ahead" if r["validation"] > value else ""
            if "chosen" in r:
                text += f"; chosen on jobs kept back: {'what was searched' if r['chosen'] == 'searched' else 'its start'}"
            print(f"{r['policy']}: {text} ({r['choices']:,} choices{behind})")
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
        origins: Annotated[
            Optional[int],
            typer.Option("--origins", min=1, max=6, help="Train anew before t = … 0.8, 0.9, judge on the next tenth."),
        ] = None,
        window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None,
        shakes: Annotated[Optional[int], typer.Option("--shakes", min=0, max=1000, help="Default: 4.")] = None,
        kill: Kill = False,
        force: Force = False,
        procs: Procs = None,
        jobs: Jobs = None,
        load: Load = None,
        seed: Seed = 0,
        as_json: Json = False,
    ) -> None:
        """Compare a trained policy with the rules on the part of a log that it has not seen (the last 30 %)."""
        from jobwise.compare import both_ways
        from jobwise.policies.grid import GridPolicy
        from jobwise.policies.neural import resolve_trained, rules
        from jobwise.workloads.transform import SEEN, unseen

        if Path(run).is_file() and not run.endswith(".safetensors") and log is not None:
            raise InputError(f"the run comes first: jobwise evaluate {log} {run}")
        trained, name = resolve_trained(run)
        if isinstance(trained, GridPolicy):
            if whole or kill or any(x is not None for x in (window, shakes, procs, jobs, load, origins)):
                raise InputError(f"{run}: plays on a grid of time; only --policy, --seed and --json are for it")
            evaluate_grid(trained, log, policy, report, seed, as_json)
            return
        if log is None:
            raise InputError(f"on which log? jobwise evaluate {run} LOG")
        if origins is not None and (whole or report):
            raise InputError("--origins trains anew and prints one table; --whole and --report are for one comparison")
        check_outputs(log, report, force=force, ending=".html .htm")
        names = policy or rules(trained)
        w = open_log(log, procs, jobs, load)
        if len(w if whole else unseen(w)) < 8:
            raise InputError(f"{w.name}: {len(unseen(w))} unseen jobs are too few to compare anything on")
        about = trained.about
        bound = about.get("max_wait") or float("inf")
        if bound < float("inf") and "fcfs+easy" not in names:
            names = ["fcfs+easy", *names]  # what the bound is a multiple of
        told = {"max_wait": bound, "window_jobs": window, "shakes": 4 if shakes is None else shakes, "seed": seed}
        told |= {"kill_at_walltime": kill}
        if not as_json:
            noticed(w)
        if origins is not None:
            _origins(name, w, names, origins, told, as_json)
            return
        with progress(f"comparing {len(names) + 1} schedulers") as show:
            c, other = both_ways(w, [*names, trained], since=0.0 if whole else SEEN, progress=show, **told)
        found, fair = _against(c, len(names), bound)
        if report:
            from jobwise.report.html import write_report

            curve = Path(name) / "metrics.jsonl"
            said = [x["verdict"] for x in (fair, found) if x]
            curve = curve if curve.is_file() else None
            write_report(c, report, curve=curve, other=other, ours=len(names), said=said, force=True)
        if as_json:
            more = {"other_way": other.to_dict()} if other else {}
            print_json(c.to_dict() | {"against_best_rule": found, "against_fair_best": fair} | more)
            return
        print_comparison(c)
        if other:
            say(f"\nThe same with jobs {'that run on' if kill else 'ended at their request (--kill)'}:")
            print_comparison(other)
        for x in (fair, found):
            if x:
                say(x["verdict"])
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
        if not hasattr(policy, "explain"):
            raise InputError(f"{run}: plays on a grid of time; `jobwise watch` shows what it does")
        w = open_log(log, procs, jobs)
        one = getattr(getattr(policy, "act", None), "single_events", False)
        sim, seen = Simulation(w, single_events=one), -1
        policy.reset(sim.view())
        while seen < choice:
            if not sim.advance():
                raise InputError(f"{w.name}: there are {seen + 1} such instants; --choice counts from 0")
            view = sim.view()
            if len(view.ended):
                policy.ended(view, view.ended)
            found = policy.explain(view) if len(view.queue) > 1 else []
            seen += len(found) > 1
            if seen < choice:
                sim.apply(policy.decide(view), policy.name)
        if as_json:
            print_json({"policy": policy.name, "time": view.now, "free": int(view.free.sum()), "jobs": found[:top]})
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
    def export_onnx(
        run: Policy, out: Annotated[str, typer.Argument(metavar="OUT", help="ONNX file to write.")], force: Force = False
    ) -> None:
        """Write a policy's network as ONNX, its metadata included."""
        needs("learn", "onnx")
        from jobwise.files import write_whole
        from jobwise.policies.neural import NeuralPolicy
        from jobwise.policies.neural import load as load_policy
        from jobwise.policies.onnx import to_onnx

        check_outputs("-", out, force=force, ending=".onnx")
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
        needs("learn", "pydantic", *([] if study == "quality" else ["torch", "gymnasium", "tensorboard"]))
        needs("report", "matplotlib", "jinja2")
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


def _origins(folder: str, w, names: list[str], count: int, told: dict, as_json: bool) -> None:
    """Train the system of a run folder anew before every origin, and compare."""
    from dataclasses import replace

    from jobwise.origins import origins
    from jobwise.systems.search import Config, train

    try:
        about = dict(json.loads((Path(folder) / "run.json").read_text())["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: --origins trains anew and needs the run folder with its run.json ({error})") from None
    if about.get("system") != "search":
        raise InputError(f"{folder}: --origins trains search anew, not {about.get('system')}; a network takes too long")
    settings = Config().changed(**about)

    def learn(part, t: float):
        found = train(settings, part, Path(folder) / f"origin{t:g}", resume=True, share=1.0)[0]
        return replace(found, label="search")

    with progress(f"{count} origins, a search at each") as show:
        o = origins(w, names, count, learn=learn, progress=show, **told)
    if as_json:
        print_json(o.to_dict())
    else:
        print_origins(o)


def _against(c, ours: int, bound: float) -> tuple[dict | None, dict | None]:
    """Policy `ours` against (the best in hindsight, the fair best), in numbers and words: on windows; with a bound on waits in
    the continuous replay, and there against those that keep it in every replica."""
    fcfs = c.policies.index("fcfs+easy") if "fcfs+easy" in c.policies else 0
    keeps = bound < float("inf")

    def one(rule: int, what: str) -> dict:
        e = c.change_whole(ours, rule) if keeps else c.change(ours, rule)
        word = "lower" if e.high < 0 else "higher" if e.low > 0 else "not to be told from it"
        text = f"{c.policies[ours]} against {what}, {c.policies[rule]}: bounded slowdown {e.text()} ({word})"
        if keeps:
            mine, its = c.waits(ours, fcfs), c.waits(rule, fcfs)
            text += (
                f" in the continuous replay; longest wait {mine[0]:.2f} (up to {mine[2]:.2f}) against {its[0]:.2f} times that "
            )
            text += "of " + f"{c.policies[fcfs]}, at most {bound:g} was asked for: {'kept' if mine[2] <= bound else 'broken'}."
        else:
            text += f"; {c.price(ours, rule)} in the continuous replay."
        middle, least, most = c.waits(ours, rule)
        found = (
            {"rule": c.policies[rule]} | e.to_dict() | {"longest_wait_ratio": {"median": middle, "least": least, "most": most}}
        )
        return found | {"kept": c.keeps(ours, bound, fcfs), "verdict": text}

    others = [p for p in range(len(c.policies)) if p != ours]
    geometric = [float(np.log(x).mean()) for x in (c.blocks if keeps else c.windows["bounded_slowdown"])]
    kept = [p for p in others if not keeps or p == fcfs or c.keeps(p, bound, fcfs)]
    best = min(kept, key=lambda p: geometric[p])
    fair = None if c.fair is None else one(c.fair, "the fair best rule")
    return one(best, f"the best {f'within {bound:g}x ' if keeps else ''}in hindsight"), fair
