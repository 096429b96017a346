"""A model of MARS that learns window by window, and the files it is kept in; see `store.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pydantic import ValidationError

from jobwise.compare.fingerprint import public_hash
from jobwise.compare.windows import begins, slowdowns
from jobwise.errors import InputError
from jobwise.files import lock, write_whole
from jobwise.learn.config import Config
from jobwise.learn.generations import Generations
from jobwise.learn.ground import OF_FLOWS, Ground, flow_slowdowns, of_streams
from jobwise.learn.run_folder import explained, score
from jobwise.policies.names import load
from jobwise.policies.neural import NeuralPolicy
from jobwise.simulate import simulate_many
from jobwise.systems.mars import HEURISTICS, accepted
from jobwise.systems.model_about import FORMAT, About, Window
from jobwise.workload import Workload
from jobwise.workloads import wfformat
from jobwise.workloads.streams import arrivals
from jobwise.workloads.workflows import Workflow
from jobwise.worlds.window.mars import costs

if TYPE_CHECKING:
    from jobwise.learn.window import WindowTrainer

PIECE = 256  # jobs: a window is measured in pieces of at most so many, eight at least
MEMORY = 4  # windows that a net learns from: the last ones


class Model:
    """One model of a store; a new one has `about`, and may begin as another net. Raises InputError for a folder without."""

    def __init__(self, folder: Path, about: About | None = None, begins_as: NeuralPolicy | None = None):
        self.folder, self.begins_as, file = folder, begins_as, folder / "model.json"
        try:
            self.about = about or About.model_validate_json(file.read_text())
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from None
        except ValidationError as error:
            raise explained(error, About, str(file)) from None
        if self.about.format != FORMAT:
            raise InputError(f"{file}: its format is {self.about.format!r}; this version reads {FORMAT!r}")

    @property
    def first_rule(self) -> str:
        """The rule before any window was seen."""
        return HEURISTICS[0] if self.about.kind == "log" else OF_FLOWS[0]

    @property
    def rule(self) -> str:
        """The best rule so far."""
        known = self.about.rules
        return min(known, key=lambda n: (known[n], n)) if known else self.first_rule

    @property
    def serves(self) -> str:
        """The scheduler of now: "G3", or a rule."""
        return self.rule if self.about.serves < 0 else f"G{self.about.serves}"

    def net(self, name: str) -> NeuralPolicy:
        """A net of the folder. Raises InputError."""
        net = load(file := self.folder / f"{name}.safetensors")
        if net.spec != "window":
            raise InputError(f"{file}: is no net")
        return net

    # ---------------------------------------------------------------- learning

    def learn(self, log: Workload, size: int, report: Callable[[Window], None] | None = None, seed: int = 0) -> list[Window]:
        """Go through the windows of `size` jobs of a log that have not been seen yet; what they showed. Raises InputError for
        another log than before."""
        with locked(self.folder):
            file, a, windows = self.folder / "model.json", self.about, []
            if (Model(self.folder).about.seen if file.exists() else 0) != a.seen:
                raise InputError(f"{self.folder}: another run has learnt there meanwhile; begin again")
            if a.seen > len(log) or (a.seen and public_hash(log.take(slice(0, a.seen))) != a.sha256):
                raise InputError(
                    f"{self.folder}: has learnt from {a.seen:,} jobs of {a.log}; {log.name} does not begin with them"
                )
            while a.seen + size <= len(log):
                windows.append(self._window(log, a.seen, a.seen + size, seed + len(a.windows)))
                if report:
                    report(windows[-1])
            if file.exists() and not windows:
                write_whole(file, a.model_dump_json(indent=1))
        return windows

    def _window(self, log: Workload, first: int, last: int, seed: int) -> Window:
        a, size, part = self.about, last - first, log.take(slice(first, last))
        piece = max(min(PIECE, size // 8), 1)
        pieces = [part.take(slice(i, i + piece)) for i in begins(0, size, piece)]  # no job is in two of them
        config = a.config.changed(seed=seed, whole_log=True, jobs=min(a.config.jobs, size))
        recent = log.take(slice(max(last - MEMORY * size, 0), last))
        a.seen, a.sha256 = last, public_hash(log.take(slice(0, last)))
        return self._judged(config, recent, size, pieces, HEURISTICS, slowdowns)

    def learn_run(self, outcome: Workflow) -> Window:
        """Learn from a workflow as it ran: the net, its generations and the rules are measured on streams of replicas of it, on
        which none has learnt; then the net learns on streams of the last outcomes. What the run showed. Raises InputError."""
        with locked(self.folder):
            a, k = self.about, len(self.about.windows)
            write_whole(self.folder / f"run.{k}.json", wfformat.to_text(outcome))
            last = [wfformat.read(self.folder / f"run.{i}.json") for i in range(max(k - MEMORY + 1, 0), k + 1)]
            config = a.config.changed(seed=k, whole_log=True)

            def streams(flows: list[Workflow], what: int) -> list[Workload]:
                return [
                    arrivals(flows, config.workflows, a.cluster, config.load, [what, k, i], size=0.3, estimate=0.5)
                    for i in range(config.streams)
                ]

            training, pieces = streams(last, 12), streams([outcome], 13)
            a.seen += 1
            ground = of_streams(training, pieces)
            return self._judged(config, training[0], len(outcome), pieces, OF_FLOWS, flow_slowdowns, ground)

    def _judged(
        self, config: Config, recent: Workload, jobs: int, pieces: list[Workload], rules: Sequence[str],
        measure: Callable[[list], np.ndarray], ground: Ground | None = None,
    ) -> Window:  # fmt: skip
        """Measure the net, its generations and the rules on pieces that none has learnt from, decide who schedules, and learn
        from `recent` jobs (or from a ground)."""
        from jobwise.learn.window import WindowTrainer  # needs torch

        a = self.about

        def measured(policy: Any) -> np.ndarray:
            return measure(simulate_many(pieces, policy))

        slow, rule, served = {n: measured(n) for n in rules}, self.rule, self.serves
        scores = {n: score(x) for n, x in slow.items()}
        rule = rule if rule in scores else min(scores, key=lambda n: scores[n])
        g, net = a.open(lambda name: self.net(name).forward.weights), self.net(a.present) if a.present else self.begins_as
        trainer = WindowTrainer(config, recent, "cpu", net, ground)
        shown = {"jobs": jobs, "served": served, "rule": rule, "rule_score": scores[rule]}
        if net is None:
            trainer.begin()
            g.begin(trainer.weights())
            rule_score, back, net_score, gain = scores[rule], None, None, None
        else:
            if not g.kept:
                g.begin(net.forward.weights)
            memo: dict[int, np.ndarray] = {}

            def by_weights(weights: dict) -> np.ndarray:
                if id(weights) not in memo:
                    memo[id(weights)] = measured(self._policy(trainer, weights))
                return memo[id(weights)]

            present = net.forward.weights
            rule_score = score(by_weights(g.served)) if g.served else scores[rule]
            gain, back = g.judge(present, by_weights, slow[rule])
            net_score = score(by_weights(present))
            trainer.agent.load(back or present, g.rate)
            trainer.begin(warm=False)
        self._learnt(trainer, config)
        best = min(scores, key=lambda n: scores[n])
        shown |= {"score": rule_score, "net": net_score, "gain": gain, "rolled_back": back is not None}
        window = Window(**shown, best=best, best_score=scores[best])
        self._weigh(trainer, pieces)
        a.rules = {n: 0.5 * a.rules.get(n, 0.0) + float(np.log(s)) for n, s in scores.items()}
        a.windows.append(window)
        self._save(trainer, g)
        return window

    @staticmethod
    def _learnt(trainer: WindowTrainer, config: Config) -> None:
        """Let the net learn for the budget of a window."""
        done = updates = 0
        try:
            while done < (config.choices or 0):
                done += trainer.update(updates)["choices"]
                updates += 1
        finally:
            trainer.envs.close()

    def _weigh(self, trainer: WindowTrainer, pieces: list[Workload]) -> None:
        """Keep or halve beta, the weight of cost, by the acceptance test."""
        a = self.about
        plain: Any = trainer.policy(trainer.weights(), {})
        if a.first is None:
            a.first = -float(np.mean(slowdowns(simulate_many(pieces, plain))))
        elif a.beta > 0:
            now = -float(np.mean(slowdowns(simulate_many(pieces, plain.with_options({"cost": a.beta})))))
            kappa = float(np.mean([costs(p.jobs, trainer.encoder).mean() for p in pieces]))
            a.beta = accepted(a.beta, a.first, now, kappa)

    # ---------------------------------------------------------------- files

    def _save(self, trainer: WindowTrainer, g: Generations) -> None:
        a = self.about
        a.keep(g, self.folder, lambda weights, file: self._policy(trainer, weights).save(file))
        a.present = f"present.{len(a.windows)}"
        self._policy(trainer, trainer.weights()).save(self.folder / f"{a.present}.safetensors")
        a.schedules = f"g{g.serves}.safetensors" if g.served else self.rule
        write_whole(self.folder / "model.json", a.model_dump_json(indent=1))
        a.tidy(self.folder, a.present)

    def _policy(self, trainer: WindowTrainer, weights: dict) -> NeuralPolicy:
        return cast(Any, trainer.policy(weights, {"cost": self.about.beta})).with_options({"cost": self.about.beta})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One learner at a time. Raises InputError where another is at work."""
    with lock(folder / "lock", f"{folder}: another run learns there"):
        yield


def told(model: Model) -> dict:
    """A model in one row."""
    a = model.about
    about = {"model": model.folder.name, "log": a.log, "cores": a.cores, "windows": len(a.windows), "jobs": a.seen}
    about |= {"generations": a.number, "rollbacks": a.rollbacks, "rule": model.rule, "schedules": model.serves}
    return about | {"beta": a.beta}
