"""Training: from a log to a policy file.

    log ─► training part (first 60 %) ─► environment ─► collect ─► update ─┐
           validation part (next 10 %) ─► score of the present network ◄───┤ the best one becomes the policy
           test part (last 30 %)       ─► nobody looks, until `evaluate`   └─ checkpoints, metrics, TensorBoard

A run folder holds `run.json` (resolved configuration, versions, log), `metrics.jsonl`, TensorBoard events,
`checkpoint.safetensors` and `policy.safetensors`. A run that was killed goes on from its checkpoint to the same result.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from jobwise import __version__, encoders
from jobwise.compare.baselines import rules
from jobwise.compare.fingerprint import public_hash, sketch
from jobwise.compare.windows import slowdowns
from jobwise.encoders import Encoder
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn.agent import LEARNERS, Agent, Settings, collect
from jobwise.learn.env import BatchVectorEnv
from jobwise.learn.run_folder import about_run, check_same, explained, parts, per_seed, score, windows
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.worlds.episodes import Episodes
from jobwise.worlds.modes import Act
from jobwise.worlds.rewards import REWARDS


def check_learner(value: dict) -> dict:
    """Settings of a learner as they are, if they can be. Raises ValueError."""
    known = {f.name: type(f.default) for f in fields(Settings)}
    if wrong := set(value) - set(known):
        raise ValueError(f"unknown learner setting {sorted(wrong)[0]!r}; known: {', '.join(sorted(known))}")
    named = {
        "learner": LEARNERS,
        "critic": ("pooled", "window"),
        "baseline": ("batch", "time"),
        "optimiser": ("adam", "rmsprop", "sgd"),
    }
    may_be_0 = ("gamma", "lam", "entropy")
    for key, x in value.items():
        if key in named:
            if x not in named[key]:
                raise ValueError(f"unknown {key} {x!r}; known: {', '.join(named[key])}")
        elif isinstance(x, bool) or not isinstance(x, int if known[key] is int else (int, float)):
            raise ValueError(f"{key} is {x!r}; a number is expected")
        elif not (0 < x < 1e12 or (x == 0 and key in may_be_0)) or (key in ("gamma", "lam") and x > 1):
            raise ValueError(f"{key} is {x!r}; it must be {'0 to 1' if key in ('gamma', 'lam') else 'more than 0'}")
    if value.get("baseline") == "time" and value.get("learner", "ppo") != "reinforce":
        raise ValueError("the baseline 'time' goes with the learner 'reinforce'")
    return value


class Config(BaseModel):
    """Everything that decides what a run becomes. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = "perjob"
    encoder: str = "perjob"
    window: int | None = Field(None, ge=1, le=100_000)
    encoding: dict[str, Any] = {}  # settings of the encoder
    act: str = "pick"
    backfill: str = ""
    fill: str = ""
    network: Literal["perjob", "rows", "levels", "mlp"] = "perjob"
    hidden: list[int] = [32, 16, 8]
    reward: str = "bounded_slowdown"
    learner: dict[str, Any] = {}  # settings of the learner, see `agents.learner.Settings`
    simulations: int = Field(256, ge=1, le=100_000)  # side by side
    jobs: int = Field(256, ge=1)  # per episode
    shake_s: float = Field(300.0, ge=0, le=1e8)
    loads: list[float] = [1.0]
    choices: int | None = Field(1_000_000, ge=1)  # budget: choices made
    episodes: int | None = Field(None, ge=1)  # or: episodes ended
    validations: int = Field(20, ge=1)  # over the budget
    validation_windows: int = Field(32, ge=1)
    validation_jobs: int | None = Field(None, ge=1)  # per window; as many as an episode
    whole_log: bool = False  # learn and validate on all of it, as a published game may; then nothing is unseen
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)

    @field_validator("reward")
    @classmethod
    def _reward(cls, value: str) -> str:
        if value not in REWARDS:
            raise ValueError(f"unknown reward {value!r}; known: {', '.join(sorted(REWARDS))}")
        return value

    @field_validator("learner")
    @classmethod
    def _learner(cls, value: dict) -> dict:
        return check_learner(value)

    @field_validator("hidden")
    @classmethod
    def _hidden(cls, value: list[int]) -> list[int]:
        if len(value) > 20 or any(not 1 <= n <= 100_000 for n in value):
            raise ValueError("hidden layers are up to 20, of 1 to 100,000")
        return value

    def changed(self, **changes: Any) -> Config:
        """The same with changes, checked. Raises InputError."""
        return checked(self.model_dump() | changes)

    def network_spec(self, encoder: Encoder) -> dict:
        """{"kind", "sizes"} of the actor."""
        rows, features = encoder.shape
        if (self.network == "perjob") != encoder.per_job and self.network != "mlp":
            raise InputError(f"a {self.network} network does not go with encoder {encoder.name}")
        if (self.network == "levels") != bool(encoder.settings.get("levels")) and self.network in ("rows", "levels"):
            raise InputError("a network of two levels goes with encoding.levels = true, a network of rows with false")
        first = {"perjob": features, "rows": rows, "levels": rows - 1, "mlp": rows * features}[self.network]
        return {"kind": self.network, "sizes": [first, *self.hidden, 1 if self.network == "perjob" else encoder.window]}


def checked(values: dict, where: str = "configuration") -> Config:
    """A Config of plain values. Raises InputError, one line, naming the key."""
    try:
        return Config(**values)
    except ValidationError as error:
        raise explained(error, Config, where) from None


class Run:
    """One training run in a folder. `report(line of metrics)` is called after every update."""

    def __init__(self, config: Config, log: Workload, folder: str | Path, device: str = "cpu", resume: bool = False):
        self.config, self.log, self.folder, self.device = config, log, Path(folder), device
        train, validate = (log, log) if config.whole_log else parts(log)[:2]
        if config.jobs > len(train):
            raise InputError(
                f"{log.name}: episodes of {config.jobs} jobs do not fit the {len(train)} jobs of the training part"
            )
        torch.set_num_threads(config.threads)
        self.encoder = encoders.make(config.encoder, train.cluster, train.jobs, config.window, **config.encoding)
        self.act = Act(config.act, config.backfill, config.fill)
        episodes = Episodes([train], config.jobs, loads=tuple(config.loads), shake_s=config.shake_s)
        self.settings = Settings(**config.learner)
        same = {"act": self.act, "encoder": self.encoder, "reward": config.reward, "copy": False, "threads": config.threads}
        self.envs = BatchVectorEnv(config.simulations, episodes, **same)
        self.agent = Agent(config.network_spec(self.encoder), self.encoder, self.settings, config.seed, device)
        self.validation = windows(
            validate, config.validation_jobs or config.jobs, config.validation_windows, config.shake_s, config.seed
        )
        self.sketch = sketch([log if config.whole_log else parts(log)[0], *([] if config.whole_log else [parts(log)[1]])])
        self.done = {"updates": 0, "choices": 0, "episodes": 0, "validations": 0, "seconds": 0.0}
        self.best, self.best_weights, self.rule, self.recent = np.inf, None, ("", np.inf), []
        self._open(resume)

    # ------------------------------------------------------------------ the folder

    def _open(self, resume: bool) -> None:
        about, file = about_run(self.config, self.log), self.folder / "run.json"
        checkpoint = self.folder / "checkpoint.safetensors"
        if file.exists():
            if not resume:
                raise InputError(f"{self.folder}: holds a run already; --resume goes on with it, or name another folder")
            check_same(self.folder, about)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(about, indent=1))
        lines = self.folder / "metrics.jsonl"
        if resume and checkpoint.exists():
            self._restore(checkpoint)
            text = lines.read_text() if lines.exists() else ""
            whole = [x for x in text.splitlines(keepends=True) if x.endswith("}\n")]  # a kill may leave half a line
            kept = [x.strip() for x in whole if json.loads(x)["updates"] <= self.done["updates"]]
            write_whole(lines, "".join(f"{x}\n" for x in kept))
        else:
            self.envs.reset(seed=self.config.seed * 1_000_003)
            write_whole(lines, "")

    # ------------------------------------------------------------------ the loop

    @property
    def part(self) -> float:
        """How much of the budget is used, 0 to 1."""
        used = [self.done[k] / most for k in ("choices", "episodes") if (most := getattr(self.config, k))]
        return min(max(used), 1.0)

    def policy(self, weights: dict[str, np.ndarray] | None = None) -> NeuralPolicy:
        """The present network (or these weights) as a policy."""
        about = {
            "system": self.config.system,
            "log": self.log.name,
            "log_sha256": public_hash(self.log),
            "trained_on": self.sketch,
            "jobs": len(self.log),
            "processors": self.log.cluster.processors,
            "seed": self.config.seed,
            "choices": self.done["choices"],
            "validation": None if np.isinf(self.best) else self.best,
            "best_rule": list(self.rule),
            "whole_log": self.config.whole_log,
            "jobwise": __version__,
        }
        forward = Forward(self.agent.network, weights or self.agent.weights())
        return NeuralPolicy(forward, self.encoder, self.act, self.config.system, about)

    def validate(self) -> dict[str, float]:
        """The present network's score on the validation windows, and its mean reward there; the best so far is kept."""
        total = np.zeros(2)

        def add(intervals: np.ndarray, which: np.ndarray) -> None:
            total[:] += self.envs.reward(intervals)[which].sum(), which.sum()

        value = score(slowdowns(simulate_many(self.validation, self.policy(), after=add)))
        if value < self.best:
            self.best, self.best_weights = value, self.agent.weights()
        return {"validation": value, "validation_reward": float(total[0] / max(total[1], 1))}

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its score."""
        found = [(r, score(slowdowns(simulate_many(self.validation, r)))) for r in rules(self.act)]
        return min(found, key=lambda x: x[1])

    def run(self, report: Callable[[dict], None] | None = None) -> NeuralPolicy:
        """Train to the end of the budget; the policy that did best in validation, saved as `policy.safetensors`."""
        from torch.utils.tensorboard import SummaryWriter

        if not self.rule[0]:
            self.rule = self.best_rule()
            self.validate()
        board = SummaryWriter(str(self.folder), purge_step=self.done["updates"])
        steps = None if self.settings.baseline == "time" else self.settings.steps
        with open(self.folder / "metrics.jsonl", "a") as lines:
            while self.part < 1.0:
                line = self._update(steps)
                lines.write(json.dumps(line) + "\n")
                lines.flush()
                for key, value in line.items():
                    if key != "updates":
                        board.add_scalar(key, value, self.done["updates"])
                if "validation" in line:
                    self._checkpoint()
                if report:
                    report(line | {"part": self.part})
        board.close()
        policy = self.policy(self.best_weights)
        policy.save(self.folder / "policy.safetensors")
        return policy

    def _update(self, steps: int | None) -> dict:
        begin = time.perf_counter()
        if steps is None:  # all simulations run the same jobs (DeepRM's baseline needs it)
            self.envs.reset(seed=[self.config.seed * 1_000_003 + self.done["updates"]] * self.envs.num_envs)
        try:
            rollout = collect(self.envs, self.agent, steps)
            found = LEARNERS[self.settings.learner](self.agent, rollout)
        except FloatingPointError as error:
            raise InputError(f"{self.folder}: training came apart: {error}; try a lower learning rate") from None
        self.done["updates"] += 1
        self.done["choices"] += int(rollout.there.sum())
        self.done["episodes"] += len(rollout.episodes)
        self.done["seconds"] += time.perf_counter() - begin
        self.recent = [*self.recent, *rollout.episodes.tolist()][-256:]
        line = {"updates": self.done["updates"], "choices": self.done["choices"], "episodes": self.done["episodes"], **found}
        if self.recent:
            line["episode_bounded_slowdown"] = float(np.mean(self.recent))
        if self.part * self.config.validations >= self.done["validations"] + 1 or self.part >= 1:
            self.done["validations"] = int(self.part * self.config.validations)
            line |= self.validate() | {"best": self.best, "best_rule": self.rule[1]}
        return line

    # ------------------------------------------------------------------ checkpoints

    def agent_state(self) -> dict:
        """What the agent is to go on from."""
        return self.agent.state()

    def restore_agent(self, state: dict) -> None:
        """Go on from it."""
        self.agent.restore(state)

    def _checkpoint(self) -> None:
        arrays: dict[str, np.ndarray] = {}
        state = {
            "agent": self.agent_state(),
            "envs": self.envs.snapshot(),
            "done": self.done,
            "best": [self.best, self.best_weights or {}],
            "rule": list(self.rule),
            "recent": self.recent,
        }
        tree = _flatten(state, arrays)
        write_whole(self.folder / "checkpoint.safetensors", save(arrays, {"tree": json.dumps(tree)}))

    def _restore(self, file: Path) -> None:
        try:
            with safe_open(file, framework="numpy") as f:
                tree = json.loads(f.metadata()["tree"])
                arrays = {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{file}: is damaged: {error}; begin anew in another folder") from None
        state = _raise(tree, arrays)
        try:
            self.restore_agent(_tensors(state["agent"]))
            self.envs.restore(state["envs"])
        except (ValueError, KeyError, RuntimeError) as error:
            raise InputError(f"{file}: was written by another version of jobwise: {str(error).splitlines()[0]}") from None
        self.done, self.rule, self.recent = state["done"], tuple(state["rule"]), state["recent"]
        self.best, self.best_weights = state["best"][0], state["best"][1] or None


def _flatten(x: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Plain values as they are, arrays and tensors as {"array": name} with their bytes in `arrays`."""
    if isinstance(x, dict):
        return {"items": [[k, _flatten(v, arrays)] for k, v in x.items()]}
    if isinstance(x, list | tuple):
        return [_flatten(v, arrays) for v in x]
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    if isinstance(x, np.ndarray):
        name = f"a{len(arrays):05d}"
        arrays[name] = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
        dtype = [list(d) for d in x.dtype.descr] if x.dtype.names else x.dtype.str
        return {"array": name, "shape": list(x.shape), "dtype": None if x.dtype.names else dtype}
    return x.item() if isinstance(x, np.generic) else x


def _raise(x: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The opposite of `_flatten`; structured arrays come back as bytes."""
    if isinstance(x, list):
        return [_raise(v, arrays) for v in x]
    if isinstance(x, dict) and "items" in x:
        return {k: _raise(v, arrays) for k, v in x["items"]}
    if isinstance(x, dict):
        data = arrays[x["array"]]
        return data if x["dtype"] is None else data.view(x["dtype"]).reshape(x["shape"]).copy()
    return x


def _tensors(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _tensors(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_tensors(v) for v in x]
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


def pick_device(device: str) -> str:
    """cpu, cuda or mps; `auto` takes a GPU where there is one. Raises InputError."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(d for d in ("cuda", "mps", "cpu") if there[d])
    if not there.get(device):
        raise InputError(f"there is no device {device!r} here; there are: {', '.join(d for d in there if there[d])}, auto")
    return device


def train(
    config: Config,
    log: Workload,
    folder: str | Path,
    *,
    seeds: int = 1,
    device: str = "cpu",
    resume: bool = False,
    report: Callable[[int, dict], None] | None = None,
) -> list[NeuralPolicy]:
    """Train once per seed (config.seed, config.seed + 1, …), in `folder`, or its folders seed0, seed1 …

    With several seeds the one that did best in validation becomes the folder's own `policy.safetensors`. `report(number of
    the seed, metrics)` is called after every update. Raises InputError.
    """

    def one(settings: Config, place: Path, told: Callable[[dict], None] | None) -> NeuralPolicy:
        run = Run(settings, log, place, device, resume and (place / "run.json").exists())
        try:
            return run.run(told)
        finally:
            run.envs.close()

    return per_seed(config, log, folder, seeds, resume, report, one)
