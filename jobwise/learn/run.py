"""Training runs: from a configuration and a log to a policy file, in a folder.

    log ─► training part (first 60 %) ─► environment ─► collect ─► update ─┐
           validation part (next 10 %) ─► score of the present network ◄───┤ the best one becomes the policy
           test part (last 30 %)       ─► not used before `evaluate`       └─ checkpoints, metrics, TensorBoard

A run folder holds `run.json` (resolved configuration, versions, log), `metrics.jsonl`, TensorBoard events,
`checkpoint.safetensors` and `policy.safetensors`. A run that was killed goes on from its checkpoint to the same result. What a
world of decisions needs of its own is in its trainer (`window.py`, `slots.py`); a search is one, too (`systems/search.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn import checkpoint
from jobwise.learn.run_folder import opened, per_seed
from jobwise.workload import Workload


class Trainer:
    """The trainer of a system, which a run asks: `config.trainer(log, device)` makes it. A run begins, goes on round by round
    (`update`), judges what it has now and then (`validate`), and keeps the best (`keep`).

    `log`: what `run.json` names. `envs`: the environments, with `snapshot`, `restore` and `close`; None: it has none. `budget`:
    (key of what is counted: choices, episodes or updates, how many of them or None). `recent`: results of the last episodes.
    `board`: are its metrics written for TensorBoard? `newest`: do the weights at the end count, not the luckiest on the way?
    """

    config: Any
    log: Workload
    envs: Any = None
    budget: list[tuple[str, int | None]]
    recent: list[float]
    board = True
    newest = False

    def begin(self) -> None:
        """Reset the environments, before the first update."""

    def update(self, updates: int) -> dict:
        """Collect and learn once; metrics, with the `choices` and `episodes` it took. Raises FloatingPointError."""
        raise NotImplementedError

    def validate(self, policy: Any) -> dict:
        """`validation`, smaller is better, and what else is known of the present policy."""
        raise NotImplementedError

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its score."""
        raise NotImplementedError

    def weights(self) -> Any:
        """Return the weights of the present networks."""
        raise NotImplementedError

    def policy(self, weights: Any, about: dict) -> Any:
        """The policy with these weights; `about`: what a run knows of it."""
        raise NotImplementedError

    def keep(self, policy: Any, folder: Path) -> Any:
        """Write the policy that did best into the run's folder, and return it."""
        policy.save(folder / "policy.safetensors")
        return policy

    def state(self) -> dict:
        """Return the state that networks and optimisers go on from; `restore` takes it."""
        raise NotImplementedError

    def restore(self, state: dict) -> None:
        """Go on from a checkpoint's state."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the environments."""
        if self.envs is not None:
            self.envs.close()


class TrainingRun:
    """One training run in a folder. Raises InputError where the folder holds another."""

    def __init__(self, config, log: Workload | None, folder: str | Path, device: str = "cpu", resume: bool = False):
        self.config, self.folder = config, Path(folder)
        self.trainer: Trainer = config.trainer(log, device)
        self.done = {"updates": 0, "choices": 0, "episodes": 0, "validations": 0, "seconds": 0.0}
        self.best, self.best_weights, self.rule = np.inf, None, ("", np.inf)
        self._open(resume)

    def _open(self, resume: bool) -> None:
        opened(self.folder, self.config, self.trainer.log, resume)
        kept, old, lines = (self.folder / x for x in ("checkpoint.safetensors", "checkpoint.json", "metrics.jsonl"))
        if resume and old.exists():  # of a search of before
            raise InputError(f"{old}: was written by an earlier version of jobwise; begin again in another folder")
        if resume and kept.exists():
            self._restore(kept)
            text = lines.read_text() if lines.exists() else ""
            whole = [x for x in text.splitlines(keepends=True) if x.endswith("}\n")]  # a kill may leave half a line
            past = [x.strip() for x in whole if json.loads(x)["updates"] <= self.done["updates"]]
            write_whole(lines, "".join(f"{x}\n" for x in past))
        else:
            self.trainer.begin()
            write_whole(lines, "")

    @property
    def part(self) -> float:
        """Return the used part of the budget, 0 to 1."""
        return min(max([self.done[k] / most for k, most in self.trainer.budget if most] or [1.0]), 1.0)

    def policy(self, weights: Any = None):
        """The present network (or these weights) as a policy."""
        about: dict[str, Any] = {k: self.done[k] for k in ("choices", "seconds")}
        about |= {"validation": None if np.isinf(self.best) else self.best, "best_rule": list(self.rule)}
        return self.trainer.policy(weights or self.trainer.weights(), about)

    def validate(self) -> dict[str, float]:
        """The present network in validation; the best so far is kept."""
        weights = self.trainer.weights()  # those that are judged: a trainer may go back to earlier ones
        scores = self.trainer.validate(self.policy(weights))
        if scores["validation"] < self.best or self.trainer.newest:
            self.best, self.best_weights = scores["validation"], weights
        return scores

    def run(self, report: Callable[[dict], None] | None = None):
        """Train to the end of the budget; the policy that did best in validation, saved as `policy.safetensors`.
        `report(line of metrics)` is called after every update."""
        if not self.rule[0]:
            self.rule = self.trainer.best_rule()
            self.validate()
        board = _board(self.folder, int(self.done["updates"])) if self.trainer.board else None
        with open(self.folder / "metrics.jsonl", "a") as lines:
            while self.part < 1.0:
                line = self.update()
                lines.write(json.dumps(line) + "\n")
                lines.flush()
                for key, value in line.items():
                    if board and key != "updates":
                        board.add_scalar(key, value, self.done["updates"])
                if "validation" in line:
                    self._checkpoint()
                if report:
                    report(line | {"part": self.part})
        if board:
            board.close()
        return self.trainer.keep(self.policy(self.best_weights), self.folder)

    def update(self) -> dict:
        """One update, and a validation where one is due; a line of metrics. Raises InputError where training diverges."""
        begin = time.perf_counter()
        try:
            metrics = self.trainer.update(int(self.done["updates"]))
        except FloatingPointError as error:
            raise InputError(f"{self.folder}: training diverged: {error}; try a lower learning rate") from None
        self.done["updates"] += 1
        for key in ("choices", "episodes"):
            self.done[key] += metrics.pop(key)
        self.done["seconds"] += time.perf_counter() - begin
        line = {k: self.done[k] for k in ("updates", "choices", "episodes")} | metrics
        if self.part * self.config.validations >= self.done["validations"] + 1 or self.part >= 1:
            self.done["validations"] = int(self.part * self.config.validations)
            line |= self.validate() | {"best": self.best, "best_rule": self.rule[1]}
        return line

    def _checkpoint(self) -> None:
        state = {
            "agent": self.trainer.state(),
            "envs": {} if self.trainer.envs is None else self.trainer.envs.snapshot(),
            "done": self.done,
            "best": [self.best, self.best_weights or {}],
            "rule": list(self.rule),
            "recent": self.trainer.recent,
        }
        checkpoint.write(self.folder / "checkpoint.safetensors", state)

    def _restore(self, file: Path) -> None:
        state = checkpoint.read(file)
        try:
            self.trainer.restore(state["agent"])
            if self.trainer.envs is not None:
                self.trainer.envs.restore(state["envs"])
        except (ValueError, KeyError, RuntimeError) as error:
            raise InputError(f"{file}: was written by another version of jobwise: {str(error).splitlines()[0]}") from None
        self.done, self.rule, self.trainer.recent = state["done"], tuple(state["rule"]), state["recent"]
        self.best, self.best_weights = state["best"][0], state["best"][1] or None


def train(
    config,
    log: Workload | None,
    folder: str | Path,
    *,
    seeds: int = 1,
    device: str = "cpu",
    resume: bool = False,
    report: Callable[[int, dict], None] | None = None,
) -> list:
    """Train once per seed (config.seed, config.seed + 1, …), in `folder`, or its folders seed0, seed1 …

    With several seeds the best policy in validation becomes the folder's own `policy.safetensors`. `report(number of
    the seed, metrics)` is called after every update. Raises InputError.
    """
    device = config.device(device)

    def one(settings, place: Path, report_line: Callable[[dict], None] | None):
        run = TrainingRun(settings, log, place, device, resume and (place / "run.json").exists())
        try:
            return run.run(report_line)
        finally:
            run.trainer.close()

    return per_seed(config, config.learns_from(log), folder, seeds, resume, report, one)


def _board(folder: Path, updates: int) -> Any:
    """Return what writes metrics for TensorBoard, from update `updates` on."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=updates)
