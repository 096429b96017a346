"""`jobwise mars learn` and `jobwise mars models`: models that learn from a log, window by window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import LOG_HELP, Json, needs, open_log
from jobwise.cli.progress import progress
from jobwise.cli.tables import print_json, print_table
from jobwise.errors import InputError, Interrupted
from jobwise.systems import configure
from jobwise.systems.model import told
from jobwise.systems.store import Store


@dataclass(frozen=True)
class MarsLearning:
    """Learning: how a model learns, and from which costs."""

    preset: Annotated[str, typer.Option("--preset", help="smoke, small or paper.")] = "small"
    choices: Annotated[
        Optional[int], typer.Option("--choices", min=1, help="Choices that the model learns from in a window.")
    ] = None
    cost: Annotated[Optional[float], typer.Option("--cost", min=0, help="Beta, the weight of what jobs cost; 0: none.")] = None
    drawn: Annotated[bool, typer.Option("--drawn", help="Costs are drawn, as in the paper, not prices.")] = False


@grouped
def learn(
    log: Annotated[str, typer.Argument(metavar="LOG", help=LOG_HELP)],
    models: Annotated[str, typer.Option("--models", help="Model store: a folder, made where it is missing.")],
    window: Annotated[int, typer.Option("--window", min=4, help="Jobs after which who schedules is decided again.")] = 2000,
    how: MarsLearning = MarsLearning(),
    jobs: Annotated[Optional[int], typer.Option("--jobs", min=1, help="Only the first N jobs.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**30)] = 0,
    as_json: Json = False,
) -> None:
    """Go through a log window by window: who schedules the next one, a generation of the model or a rule? Then learn from it.

    A run that was killed goes on after the last whole window; so does one whose log has grown.

    Examples:
        jobwise mars learn log.swf.gz --models models
    """
    needs("learn", "torch", "gymnasium")
    import numpy as np

    w = open_log(log, None, jobs, None)
    config = configure("mars+", w, how.preset)
    encoding = config.encoding | ({"cost": "drawn"} if how.drawn else {})
    model = Store(models).for_log(
        w, config.changed(choices=how.choices or config.choices // 5, encoding=encoding), window, how.cost
    )
    count, before = len(w) // window, len(model.about.windows)
    with progress(f"learning from {w.name}") as show:

        def report(x) -> None:
            if show:
                show(len(model.about.windows), count, "window")

        try:
            done = model.learn(w, window, report, seed)
        except KeyboardInterrupt:
            text = f"{len(model.about.windows):,} whole windows are kept, and the same command goes on from there"
            raise Interrupted(text) from None
    if as_json:
        print_json(told(model) | {"new": [x.model_dump() for x in done]})
        return
    rows = [_window(before + i + 1, x) for i, x in enumerate(done)]
    columns = ["window", "scheduled by", "best rule so far", "best in hindsight", "net", "gain"]
    print_table(f"{w.name}: {len(done)} windows of {window:,} jobs, and scores: smaller is better", columns, rows)
    if done:
        mean = [float(np.exp(np.log([getattr(x, k) for x in done]).mean())) for k in ("score", "rule_score", "best_score")]
        text = "geometric means: {:.2f}, best rule so far {:.2f}, in hindsight {:.2f}"
        print(text.format(*mean))
    print(f"{model.folder}: {model.serves} schedules now")


def _window(number: int, x) -> list[str]:
    net, gain = ("", "") if x.net is None else (f"{x.net:.2f}", f"{x.gain:+.1%}{', rolled back' if x.rolled_back else ''}")
    pairs = [f"{name} {s:.2f}" for name, s in ((x.served, x.score), (x.rule, x.rule_score), (x.best, x.best_score))]
    return [f"{number}", *pairs, net, gain]


def models(folder: Annotated[str, typer.Argument(metavar="STORE", help="Model store.")], as_json: Json = False) -> None:
    """List what a model store holds: its models, what they learnt from, and the model or rule that schedules.

    Examples:
        jobwise mars models models
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder")
    rows = [told(m) for m in Store(folder).models()]
    if as_json:
        print_json(rows)
    elif rows:
        columns = ["model", "log", "cores", "windows", "rollbacks", "schedules", "beta"]
        print_table(folder, columns, [[f"{r[k]:,}" if isinstance(r[k], int) else f"{r[k]}" for k in columns] for r in rows])
    else:
        print(f"{folder}: no model has learnt from a whole window yet")
