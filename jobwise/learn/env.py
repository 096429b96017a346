"""The environments by name: `jobwise/Window-v0`, windows of logs, `jobwise/Slots-v0`, jobsets in rows of time,
`jobwise/Gpus-v0`, GPUs given to jobs row by row, and `jobwise/Nodes-v0`, a buffer of jobs for nodes that suit them or not.

    state     what the encoder shows of the jobs waiting, the jobs running, what is free (`encoder`)
    action    the world's: see `jobwise.worlds.window.world`, `jobwise.worlds.slots.episodes`
    reward    a function of what happened until the next choice (`reward`; see `jobwise.worlds.rewards`)
    end       the world's: every job has started (windows) or ended (slots), or the episode is cut
    source    log windows after RLScheduler (SC'20, doi:10.1109/SC41405.2020.00035) and DRAS (IPDPS'21); slots and rows after
              DeepRM (HotNets'16, doi:10.1145/3005745.3005750) and CuSH (DRL4KDD'19)

`envs = gymnasium.make_vec("jobwise/Window-v0", num_envs=256, workload=w)` steps 256 simulations in one call of a kernel;
`gymnasium.make("jobwise/Window-v0", workload=w)` is a batch of one. Simulation e of a batch seeded with k is the single
environment seeded with k + e, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.learn.vector_env import SingleEnv, VectorEnv
from jobwise.workload import Workload
from jobwise.workloads.dnn import ROW_S
from jobwise.worlds import rewards
from jobwise.worlds.encoder import TableEncoder, make_table
from jobwise.worlds.gpus import encoders as gpus_encoders
from jobwise.worlds.gpus.episodes import GpusEpisodes
from jobwise.worlds.gpus.world import GpusSettings
from jobwise.worlds.nodes import encoder as nodes_encoder
from jobwise.worlds.nodes.world import NodesEpisodes, NodesSettings
from jobwise.worlds.slots.encoder import GridEncoder, make_grid, placing
from jobwise.worlds.slots.episodes import SlotsEpisodes
from jobwise.worlds.slots.world import SlotsSettings
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.encoders import make
from jobwise.worlds.window.episodes import Episodes
from jobwise.worlds.window.settings import WindowSettings
from jobwise.worlds.window.world import WindowWorld

SHARED = ("dict_obs", "copy", "threads", "render_mode")  # settings of every environment


def _split(settings: dict, own: Sequence[str]) -> tuple[dict, dict]:
    """Return (settings of the environment, settings of the world). Raises InputError for others, because Gymnasium would print
    every argument, the workload too."""
    if wrong := sorted(set(settings) - {*SHARED, *own}):
        raise unknown("setting of this environment", wrong[0], ["encoder", "reward", *SHARED, *own])
    return {k: v for k, v in settings.items() if k in SHARED}, {k: v for k, v in settings.items() if k not in SHARED}


def _some(num_envs: int) -> int:
    if num_envs < 1:
        raise InputError(f"num_envs is at least 1, not {num_envs}")
    return num_envs


def _sets(workload: Workload | Sequence[Workload] | None, generator: str) -> list[Workload]:
    sets = (
        list(workload) if isinstance(workload, Sequence) and not isinstance(workload, str) else [workload] if workload else []
    )
    if not sets:
        raise InputError(f"an environment needs a workload: jobwise.{generator}(), or several")
    if wrong := [type(x).__name__ for x in sets if not isinstance(x, Workload)]:
        raise InputError(f"a workload is a jobwise.Workload, not {wrong[0]}; jobwise.open_log(PATH) reads one")
    return sets


class WindowVectorEnv(VectorEnv):
    """Windows of logs: which job of the window is next.

    Observations float32 [E, rows, features]; actions [E], slots of the window; rewards float64 [E]; `info["action_mask"]` int8
    [E, W], 1 for the slots that show a job: always the first slots, at least one. An action beyond them wraps around to the
    first, one below 0 counts as 0. Settings: `workload` (one or several logs, or Episodes), `encoder` (a name or an Encoder),
    `reward`; those of `VectorEnv`; of the world `act` (a name or WindowSettings), `backfill`, `window` (jobs shown), `jobs`,
    `stream`, `loads`, `shake_s` (see `Episodes`), `bound_s` (of the reward `bounded_wait`).
    """

    world: WindowWorld

    WORLD = ("act", "backfill", "window", "jobs", "stream", "loads", "shake_s", "bound_s")

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | Episodes | None = None,
        *,
        encoder: str | Encoder = "rls",
        reward: str | rewards.Reward = "bounded_slowdown",
        **settings,
    ):
        shared, world = _split(settings, self.WORLD)
        if not isinstance(workload, Episodes):
            drawn = {k: world[k] for k in ("jobs", "stream", "loads", "shake_s") if k in world}
            loads = {"loads": tuple(np.atleast_1d(drawn["loads"]).tolist())} if "loads" in drawn else {}
            workload = Episodes(_sets(workload, "open_log"), **drawn | loads)
        logs, act = list(workload.logs), world.get("act", "pick")
        if isinstance(encoder, str):
            encoder = make(encoder, logs[0].cluster, np.concatenate([w.jobs for w in logs]), world.get("window"))
        sizes = {w.cluster.processors for w in logs}
        if encoder.nodes and sizes != {encoder.nodes}:
            raise InputError(f"encoder {encoder.name} is made for {encoder.nodes} processors; the logs have {sizes}")
        act = WindowSettings(act, world.get("backfill", "")) if isinstance(act, str) else act
        reward = rewards.resolve(reward, resources=logs[0].cluster.resources)
        made = WindowWorld(_some(num_envs), workload, act, encoder.window, world.get("bound_s", 86400.0))
        super().__init__(made, encoder, reward, **shared)
        self.episodes, self.act = workload, act

    @property
    def slots(self) -> np.ndarray:
        """[E, W] the job rows (within the episode) that the slots speak of; -1 beyond them."""
        return self.world.slots


class WindowEnv(SingleEnv):
    """One simulation of windows of logs. Settings as `WindowVectorEnv`."""

    batch = WindowVectorEnv


class SlotsVectorEnv(VectorEnv):
    """Jobsets in rows of time: which slot is next, placed how, or none.

    Observations float32 [E, *encoder.shape]; actions [E]: slot * placements + placement, or the void action (the last); rewards
    float64 [E]. Settings: `workload` (one jobset or several, submits and lengths in whole rows, for one cluster), `encoder`
    (deeprm, compact, cush, cush-backlog, slots, or a GridEncoder), `reward`; those of `VectorEnv`; `limit`: rows after which
    an episode is cut; `each`: simulation e plays the jobset e; and those of `jobwise.worlds.slots.world.SlotsSettings`.
    """

    world: SlotsEpisodes

    WORLD = ("limit", "each", *(f.name for f in fields(SlotsSettings)))

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | None = None,
        *,
        encoder: str | GridEncoder = "deeprm",
        reward: str | rewards.Reward = "slowdown",
        limit: int = 2000,
        each: bool = False,
        **settings,
    ):
        shared, world = _split(settings, self.WORLD)
        sets = _sets(workload, "deeprm")
        slots, cluster = SlotsSettings(**world), sets[0].cluster
        if isinstance(encoder, str):
            encoder = make_grid(encoder, cluster, slots.slots, slots.backlog, rows=slots.rows)
        reward = rewards.resolve(reward, rewards.GRID)
        super().__init__(SlotsEpisodes(_some(num_envs), sets, slots, encoder.rows, limit, each), encoder, reward, **shared)
        self.cluster, self.workloads = cluster, sets
        self._place = np.zeros((num_envs, 2, encoder.rows, int(cluster.capacity.sum())), np.float32)

    @property
    def state(self):
        """(the simulations' State, their Slots): for those who look inside."""
        return self.world.state, self.world.grid

    @property
    def placements(self) -> tuple[str, ...]:
        """The names of the placements to choose from."""
        return self.world.placements

    @property
    def void(self) -> int:
        """The number of the void action."""
        return self.world.void

    @property
    def placeable(self) -> np.ndarray:
        """[E, M] bool: slots whose job could be placed."""
        return self.world.placeable

    def jobs(self, e: int) -> np.ndarray:
        """The job table of simulation e as it stands."""
        return self.world.jobs(e)

    def show_placing(self, slots: np.ndarray) -> np.ndarray:
        """[E, 2, H, X] what CuSH's second agent sees of the jobs in `slots` [E]; valid until the next call."""
        grid = self.world.grid
        placing(grid.waiting, grid, np.asarray(slots, np.int64), self._place, 0, self.num_envs)
        return self._place

    def seed_rules(self, seed: int) -> None:
        """Seed what the rule `random` draws."""
        self.world.seed_rules(seed)


class GpusVectorEnv(VectorEnv):
    """Job sequences on GPUs, row by row: which GPU works for which job.

    Observations float32 [E, *encoder.shape]; actions [E, M]: for each GPU a place, or their number for none; rewards float64
    [E]; `info["action_mask"]` [E, M, P + 1]. Settings: `workload` (one sequence or several, for one cluster of `gpu_racks`),
    `encoder` (rl-taps, or a TableEncoder), `reward` (rl-taps, throughput, served, slowdown); those of `VectorEnv`; `row_s`:
    seconds in a row; `restart_cost_s`; `limit`: rows after which an episode is cut; `each`: simulation e plays the sequence e;
    and those of `jobwise.worlds.gpus.world.GpusSettings`.
    """

    world: GpusEpisodes

    WORLD = ("row_s", "restart_cost_s", "limit", "each", *(f.name for f in fields(GpusSettings)))

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | None = None,
        *,
        encoder: str | TableEncoder = "rl-taps",
        reward: str | rewards.Reward = "rl-taps",
        **settings,
    ):
        shared, world = _split(settings, self.WORLD)
        sets = _sets(workload, "rltaps")
        world = {"row_s": ROW_S, "restart_cost_s": 0.0, "limit": 1000, "each": False} | world
        row_s, cost_s, limit, each = (world.pop(k) for k in ("row_s", "restart_cost_s", "limit", "each"))
        made = GpusEpisodes(_some(num_envs), sets, GpusSettings(**world), row_s, cost_s, limit, each)
        if isinstance(encoder, str):
            leave = {"leave": made.settings.leave} if encoder == "gpu-jobs" else {}
            encoder = make_table(cast(Any, gpus_encoders.MAKERS), encoder, made.cluster, made.settings.slots, **leave)
        made.takes(encoder)
        super().__init__(made, encoder, rewards.resolve(reward, rewards.ASSIGNED), **shared)
        self.workloads = sets


class GpusEnv(SingleEnv):
    """One simulation of job sequences on GPUs. Settings as `GpusVectorEnv`."""

    batch = GpusVectorEnv


class NodesVectorEnv(VectorEnv):
    """Jobsets in rows of time, a buffer of jobs: which node each of them goes to.

    Observations float32 [E, *encoder.shape]; actions [E]: one of (nodes + 1) ** places combinations (`buffer.parts_of`), or
    with `joint` = False a node for one place after the other, their number for none; rewards float64 [E]. Settings: `workload`
    (one jobset or several, submits in whole rows, for clusters alike but for their affinities), `encoder` (distance, affinity,
    nodes, or a TableEncoder), `encoder_settings` (what the encoder takes), `reward` (completion, slowdown); those of
    `VectorEnv`; `limit`: rows after which an episode is cut; `each`: simulation e plays the jobset e; `prior`: see
    `NodesEpisodes`; and those of `jobwise.worlds.nodes.world.NodesSettings`.
    """

    world: NodesEpisodes

    WORLD = ("limit", "each", "prior", "encoder_settings", *(f.name for f in fields(NodesSettings)))

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | None = None,
        *,
        encoder: str | TableEncoder = "nodes",
        reward: str | rewards.Reward = "completion",
        **settings,
    ):
        shared, world = _split(settings, self.WORLD)
        sets = _sets(workload, "affinities")
        world = {"limit": 200, "each": False, "prior": None, "encoder_settings": {}} | world
        limit, each, prior, more = (world.pop(k) for k in ("limit", "each", "prior", "encoder_settings"))
        world = {"joint": encoder != "nodes"} | world
        made = NodesEpisodes(_some(num_envs), sets, NodesSettings(**world), limit, each, prior)
        if isinstance(encoder, str):
            encoder = make_table(cast(Any, nodes_encoder.MAKERS), encoder, made.cluster, made.settings.places, **more)
        made.takes(encoder)
        super().__init__(made, encoder, rewards.resolve(reward, rewards.PLACED), **shared)
        self.workloads = sets


class NodesEnv(SingleEnv):
    """One simulation of jobsets for a buffer. Settings as `NodesVectorEnv`."""

    batch = NodesVectorEnv


class SlotsEnv(SingleEnv):
    """One simulation of jobsets. Settings as `SlotsVectorEnv`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 6}
    batch = SlotsVectorEnv
