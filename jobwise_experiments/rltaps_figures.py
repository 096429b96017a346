"""The figures of RL-TAPS's paper: links, an assignment of GPUs, learning curves in both regimes."""

from __future__ import annotations

import numpy as np

from jobwise.policies.names import resolve
from jobwise.report.sections import Figure
from jobwise.sim.state import allocate
from jobwise.sim.topology import reduction
from jobwise.workloads.dnn import rltaps
from jobwise.workloads.jobsets import TEST
from jobwise_experiments.study import Arms, Study

COLOURS = {
    "gpus:random": "#6b7280",
    "gpus:sjf": "#1b6ca8",
    "gpus:tetris": "#2e8b57",
    "gpus:one": "#e09f3e",
    "gpus:greedy": "#7b5ea7",
}


def reductions(s: Study) -> Figure:
    """The time of a reduction by GPUs, as published and of a ring (figure 3)."""

    def draw(fig) -> None:
        for axes, curve_of in zip(fig.subplots(1, 2), ("published", "ring"), strict=True):
            n, ms = np.arange(1, 33), 1000 * reduction(curve_of, 32)[1:]
            axes.plot(n, ms[:, 1], label="100 MB")
            axes.plot(n, ms[:, 2], label="500 MB")
            axes.set(xlabel="GPUs in a rack", ylabel="ms", title=curve_of)
            axes.legend()

    return s.figure("reduction", draw)


def assignment(s: Study) -> Figure:
    """The cluster with several jobs side by side (figure 2)."""
    w, policy = rltaps(seed=[TEST, 0], work="lab"), resolve("gpus:slot")
    world = policy.attach(allocate([w], w.cluster, tick=policy.tick), w.cluster)
    choose = policy.chooser(world, w.cluster)
    world.begin()
    for _ in range(400):
        world.advance(choose(world))
        if len(np.unique(world.gpus.has[0])) > 4:
            break

    def draw(fig) -> None:
        axes = fig.subplots()
        axes.imshow(world.picture(0), interpolation="nearest")
        axes.axis("off")

    return s.figure("cluster", draw, 9.0, 3.6)


def learning(s: Study, regime: str, base: Arms, epoch: int) -> Figure:
    """Rewards and slowdowns in training, over epochs of `epoch` choices, beside rules."""
    pairs = (("reward", "validation_reward", "mean reward (dotted: raw)"), ("slowdown", "validation", "mean slowdown"))

    def draw(fig) -> None:
        axes = fig.subplots(1, 2)
        for k in range(s.seeds):
            for ax, (train, unseen, _) in zip(axes, pairs, strict=True):
                for key, width, colour, label in ((train, 0.7, "#eab0b7", "training"), (unseen, 1, "#d1495b", "unseen")):
                    lines = s.metrics(f"{regime}{k}", key)
                    x, y = [z["choices"] / epoch for z in lines], [z[key] for z in lines]
                    ax.plot(x, y, lw=width, color=colour, label=None if k else f"agent, {label}")
        for name, colour in COLOURS.items():
            raw, _, penalised = base.of(name, "rewards")[0].mean(axis=1)
            axes[0].axhline(penalised, ls="--", lw=1, color=colour, label=name)
            axes[0].axhline(raw, ls=":", lw=1, color=colour)
            axes[1].axhline(base.mean(name), ls="--", lw=1, color=colour)
        for ax, (_, _, label) in zip(axes, pairs, strict=True):
            ax.set(xlabel="epochs", ylabel=label, title=regime)
        axes[0].legend(fontsize=6)

    return s.figure(f"published-{regime}", draw)
