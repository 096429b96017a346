"""What the commands do with policies for a grid of time (deeprm, cush); and `watch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from jobwise.errors import InputError
from jobwise.terminal import Force, check_outputs, print_json, print_table, progress

if TYPE_CHECKING:
    from jobwise.jobs import Workload
    from jobwise.policies.grid import GridPolicy

GRIDS = ("deeprm", "cush")


def open_grid_log(source: str) -> Workload:
    """A log for a grid: a table of Philly or Alibaba, or any other log on nodes of CPUs. Raises InputError."""
    from jobwise.workloads import gpu
    from jobwise.workloads.source import open_log

    if (text := Path(source).name).startswith("philly"):
        return gpu.read_philly(source)
    if text.startswith("openb_pod"):
        return gpu.read_alibaba(source)
    w = open_log(source)
    count = next(n for n in (8, 4, 2, 1) if w.cluster.processors % n == 0)
    return gpu.on_nodes(w, count)


def evaluate_grid(
    policy: GridPolicy, log: str | None, rules: list[str] | None, report: str | None, seed: int, as_json: bool
) -> None:
    """Play jobsets that the policy has not seen, and print it beside the rules."""
    import numpy as np

    from jobwise.experiments.grids import change, means
    from jobwise.train_grid import TEST, GridConfig, jobsets

    if report:
        raise InputError("a report of a policy for a grid is written by `jobwise reproduce deeprm` or `cush`")
    config = GridConfig.of(policy)
    if (log is None) == (config.generator == "log"):
        kind = "windows of a log: name it" if log is None else "generated jobs: name no log"
        raise InputError(f"policy {policy.label} was trained on {kind}")
    sets = jobsets(config, TEST, 100, None if log is None else open_grid_log(log))
    names, found = rules or config.rules(), {}
    world = {k: v for k, v in policy.world.items() if k not in ("placements", "encoder", "order")}
    with progress(f"playing {len(sets)} jobsets") as show:
        for i, name in enumerate([*names, policy]):
            key = name if isinstance(name, str) else policy.label
            found[key] = means(sets, name, world, seed)
            if show:
                show(i + 1, len(names) + 1, key)
    plain = [n for n in names if not n.endswith("typed")] or names
    best = min(plain, key=lambda n: np.mean(found[n]["slowdown"]))
    logged = config.generator == "log"
    changes = {n: change(x["slowdown"], found[best]["slowdown"], windows=logged) for n, x in found.items()}
    if as_json:
        keep = ("slowdown", "longest", "stretch", "lost")
        mean = {n: {k: float(np.mean(x[k])) for k in keep} for n, x in found.items()}
        print_json(
            {
                "policy": policy.label,
                "best_rule": best,
                "jobsets": len(sets),
                "policies": mean,
                "change": {n: e.to_dict() for n, e in changes.items()},
            }
        )
        return
    rows = []
    for n, x in found.items():
        c = changes[n]
        rows.append(
            [
                n,
                f"{np.mean(x['slowdown']):.3f}",
                "" if n == best else c.text("+.1%"),
                f"{np.mean(x['longest']):.1f}",
                f"{np.mean(x['stretch']):.3f}",
                f"{sum(x['lost'])}",
            ]
        )
    title = f"{len(sets)} unseen jobsets: mean slowdown (end - submit) / length"
    print_table(title, ["policy", "slowdown", f"against {best}", "longest wait, rows", "ran longer by", "jobs not done"], rows)


def register_watch(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def watch(
        run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder of deeprm or cush, a policy file, or a rule.")],
        out: Annotated[str, typer.Option("--out", "-o", help="Animated GIF to write.")],
        jobset: Annotated[int, typer.Option("--jobset", min=0, help="Which of the unseen jobsets.")] = 0,
        rows: Annotated[int, typer.Option("--rows", min=1, max=5000, help="Rows of time to show at most.")] = 120,
        log: Annotated[Optional[str], typer.Option("--log", help="The log that the policy was trained on.")] = None,
        force: Force = False,
    ) -> None:
        """Watch a policy (or a rule, e.g. sjf or cush:sjf+pack) fill the machine: the picture of the cluster over time."""
        from jobwise.report.watch import film
        from jobwise.sim.gridrules import RULES
        from jobwise.systems import configure
        from jobwise.train_grid import TEST, GridConfig, jobsets

        check_outputs("-", out, force=force, ending=".gif")
        system, _, rule = run.rpartition(":")
        if rule.partition("+")[0] in RULES and not Path(run).exists():
            policy, config = rule, configure(system or "deeprm", None, "small")
        else:
            from jobwise.policies.grid import GridPolicy
            from jobwise.policies.neural import load

            policy = load(run)
            if not isinstance(policy, GridPolicy):
                raise InputError(f"{run}: plays on no grid of time; `jobwise compare LOG -p {run} --report out.html` shows it")
            config = GridConfig.of(policy)
        sets = jobsets(config, TEST, jobset + 1, None if log is None else open_grid_log(log))
        if jobset >= len(sets):
            raise InputError(f"there are {len(sets)} jobsets; --jobset counts from 0")
        count = film(sets[jobset], policy, config.world, out, rows)
        print(f"{out}: {count} rows of time")
