"""GPU clusters as graphs of links: racks of machines of sockets of GPUs, and what a data-parallel job loses on the way.

    director ── rack switch ── network card ── CPU ── GPU        a machine has a card for each CPU; its CPUs are joined
         GB/s 6.25          12.5           1000    40            CPU - CPU 38.5; GPU - GPU of a socket: none (`nvlink`)

A GPU is a node with one unit; GPUs are numbered machine by machine, so that a socket, a machine, a rack are ranges of them.
Between two GPUs there is one shortest way. So ranges describe a link: it lies on every way between a GPU in [a, b) and a GPU
in [c, d) but not in [f, g). Defaults and speeds: RL-TAPS (Ryu et al., CASCON 2020), its Table of the S822LC cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.sim.state import link_dtype

PEAK = 10.6  # TFLOPS of a P100 (FP32)
EFFICIENCY = 0.9
BANDWIDTH = {"gpu": 40.0, "cpu": 38.5, "nic": 1000.0, "rack": 12.5, "director": 6.25}  # GB/s of the link up from a GPU …
SIZES = (0.0, 100.0, 500.0)  # MB of gradients at which a reduction curve is told
RING = (28.29e-3, 139.77e-3)  # s: sqrt(GPUs) times this at 100 and 500 MB, measured (the follow-up's published simulator)
LATENCY, RING_GB_S = 20e-6, 12.5  # of the textbook ring: s a step, GB/s of the slowest link in a rack
CURVES = ("published", "ring")
WORK = ("seed", "lab")  # what a job's length stands for, see `Topology`


def reduction(curve: str, most: int) -> np.ndarray:
    """Return [most + 1, 3] s that a job on 0 .. `most` GPUs of a rack spends on reducing SIZES of gradients once a minibatch.

    `published`: square roots fitted to measurements; `ring`: 2 (n - 1) (latency + size / (n bandwidth)). Raises InputError.
    """
    n = np.arange(most + 1.0)
    if curve == "published":
        seconds = np.sqrt(n)[:, None] * np.array([0.0, *RING])
    elif curve == "ring":
        steps = 2.0 * np.maximum(n - 1, 0)[:, None]
        seconds = steps * (LATENCY + np.array(SIZES) / 1000.0 / RING_GB_S / np.maximum(n, 1)[:, None])
    else:
        raise unknown("reduction curve", curve, CURVES)
    seconds[:2] = 0.0
    return seconds


@dataclass(frozen=True, eq=False)
class Topology:
    """Places of GPUs, and slowdowns of jobs by links.

    `machines`: of each rack; `gpus`: of a machine, over its `sockets`. `bandwidth`: GB/s of links by their lower end ("cpu":
    CPU - CPU), 0: there is none. `nvlink`: GB/s between GPUs of a socket. `per_rack`: how much longer a reduction takes for
    each further rack. `work`: a job of length t at its request takes t if communication costs nothing ("seed": the published
    total, 10 % more where `efficient` is False), or if it is alone in a rack ("lab"). `curve`: see `reduction`.
    """

    machines: tuple[int, ...]
    gpus: int = 4
    sockets: int = 2
    bandwidth: dict[str, float] = field(default_factory=lambda: dict(BANDWIDTH))
    nvlink: float = 0.0
    per_rack: float = 0.2
    work: str = "seed"
    curve: str = "published"
    efficient: bool = False

    def __post_init__(self):
        if not self.machines or min(self.machines) < 0 or sum(self.machines) * self.gpus < 1:
            raise InputError(f"racks of {list(self.machines)} machines of {self.gpus} GPUs: a cluster has one GPU at least")
        if not 1 <= self.sockets <= self.gpus or sum(self.machines) * self.gpus > 65_536:
            raise InputError(f"{self.gpus} GPUs on {self.sockets} sockets: 1 to as many sockets; up to 65,536 GPUs")
        if wrong := sorted(set(self.bandwidth) - set(BANDWIDTH)):
            raise unknown("link", wrong[0], BANDWIDTH)
        object.__setattr__(self, "bandwidth", BANDWIDTH | self.bandwidth)
        if not all(0 <= x < np.inf for x in (*self.bandwidth.values(), self.nvlink, self.per_rack)):
            raise InputError(f"bandwidths are GB/s >= 0, not {self.bandwidth}")
        if self.work not in WORK:
            raise unknown("work model", self.work, WORK)
        reduction(self.curve, 1)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First GPU of every socket, machine and rack, and at last their number M."""
        count = sum(self.machines)
        inside = np.arange(self.sockets) * self.gpus // self.sockets
        machine = np.arange(count + 1) * self.gpus
        socket = np.append((machine[:-1, None] + inside).reshape(-1), count * self.gpus)
        return socket, machine, np.append(0, np.cumsum(self.machines)) * self.gpus

    def links(self) -> list[tuple[str, str, float, tuple[int, ...]]]:
        """(lower end, upper end, GB/s, its ranges (a, b, c, d, f, g)) of every link."""
        (socket, machine, rack), wide, S = self.bounds, self.bandwidth, self.sockets
        everywhere = (0, int(machine[-1]))
        links: list[tuple[str, str, float, tuple[int, ...]]] = []
        for r in range(len(self.machines)):
            a, b = int(rack[r]), int(rack[r + 1])
            links.append((f"rack{r}", "director", wide["director"], (a, b, *everywhere, a, b)))
            for m in range(a // self.gpus, b // self.gpus):
                inside = (int(machine[m]), int(machine[m + 1]))
                for c in range(m * S, m * S + S):
                    own = (int(socket[c]), int(socket[c + 1]))
                    for d in range(c + 1, m * S + S):
                        other = (int(socket[d]), int(socket[d + 1]))
                        links.append((f"cpu{c}", f"cpu{d}", wide["cpu"], (*own, *other, 0, 0)))
                    links.append((f"cpu{c}", f"nic{c}", wide["nic"], (*own, *everywhere, *inside)))
                    links.append((f"nic{c}", f"rack{r}", wide["rack"], (*own, *everywhere, *inside)))
                    for g in range(*own):
                        beside = own if self.nvlink else (g, g + 1)
                        links.append((f"gpu{g}", f"cpu{c}", wide["gpu"], (g, g + 1, *everywhere, *beside)))
                        if self.nvlink:
                            links += [
                                (f"gpu{g}", f"gpu{h}", self.nvlink, (g, g + 1, h, h + 1, 0, 0)) for h in range(g + 1, own[1])
                            ]
        return links

    def table(self) -> np.ndarray:
        """Return the links, [L] of `link_dtype`."""
        links = self.links()
        table = np.zeros(len(links), link_dtype)
        table["bandwidth"], table["range"] = [x[2] for x in links], [x[3] for x in links]
        return table

    def reduction(self, most: int) -> np.ndarray:
        """[most + 1, 3] s: see the function."""
        return reduction(self.curve, most)

    def fewest_racks(self) -> np.ndarray:
        """Return [M + 1] the fewest racks that hold n GPUs; 1e12 where no way joins n GPUs."""
        socket, machine, rack = (np.diff(b).max() for b in self.bounds)
        wide, reach = self.bandwidth, int(self.bounds[2][-1])
        for there, most in ((wide["director"], rack), (min(wide["nic"], wide["rack"]), machine), (wide["cpu"], socket)):
            reach = reach if there else min(reach, int(most))
        reach = reach if wide["gpu"] else int(socket) if self.nvlink else 1
        n, full = np.arange(self.bounds[2][-1] + 1), np.cumsum(np.sort(np.diff(self.bounds[2]))[::-1])
        return np.where(n <= reach, np.searchsorted(full, n) + 1.0, 1e12)

    @property
    def setting(self) -> tuple[float, float, float]:
        """The numbers that the rate model reads: see `rates.py`."""
        return WORK.index(self.work), 1.0 if self.efficient else EFFICIENCY, self.per_rack

    def graph(self) -> Any:
        """The cluster as a networkx Graph: nodes with `kind` (gpu, cpu, nic, rack, director), edges with `bandwidth`, GB/s."""
        try:
            import networkx
        except ImportError:
            raise InputError("graphs take networkx: pip install 'jobwise[workflows]'") from None
        graph = networkx.Graph()
        for a, b, wide, _ in self.links():
            for name in (a, b):
                graph.add_node(name, kind=name.rstrip("0123456789"))
            graph.add_edge(a, b, bandwidth=wide)
        return graph


def gpu_racks(machines: Sequence[int], gpus: int = 4, **settings: Any) -> Cluster:
    """Return a cluster of racks of machines with GPUs, whose links jobs share.

    Parameters
    ----------
    machines : sequence of int
        Machines of each rack, such as ``[2, 2, 2, 2]``: RL-TAPS's 32 GPUs.
    gpus : int
        GPUs of each machine.
    **settings
        As of `jobwise.sim.topology.Topology`.

    Returns
    -------
    Cluster
        ``graph()`` has its links.

    Raises
    ------
    InputError
        A setting cannot be.
    """
    made = Topology(tuple(machines), gpus, **settings)
    return Cluster(np.ones((sum(machines) * gpus, 1), np.int64), ("gpus",), topology=made)
