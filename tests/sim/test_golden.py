"""A golden event log per loop: eight jobs, every start and end, as files that people can read and diff.

`python tests/sim/test_golden.py` writes them anew; a change in them is a change of behaviour, and belongs into the changelog.
"""

import sys

import numpy as np
import pytest
from conftest import TESTS

import jobwise as jw
from jobwise.jobs import DONE, RUNNING
from jobwise.policies.names import resolve
from jobwise.sim.lists import list_loop
from jobwise.sim.lists.flows import NONE
from jobwise.sim.lists.list_pass import blank
from jobwise.sim.pool import pool, scored_pool
from jobwise.sim.state import allocate
from jobwise.simulate import asked
from jobwise.worlds.slots.world import SlotsSettings
from jobwise.worlds.window.passes import BEGIN, ENDED, ask
from jobwise.worlds.window.settings import WindowSettings

FOLDER = TESTS / "sim" / "golden"
SUBMIT, SIZE = [0, 0, 1, 2, 3, 3, 5, 9], [3, 2, 4, 1, 2, 1, 4, 1]
RUN, WALL = [6, 4, 5, 9, 3, 2, 4, 1], [8, 4, 6, 9, 3, 5, 4, 1]


def on_pool():
    return jw.workload(SUBMIT, SIZE, RUN, WALL, cluster=jw.pool(4))


def on_nodes():
    return jw.workload(SUBMIT, [[n] for n in SIZE], RUN, WALL, cluster=jw.nodes(2, cpus=2))


class Log:
    """Starts and ends, noticed after every step."""

    def __init__(self, s):
        self.s, self.before, self.lines = s, np.zeros(s.jobs.shape[1], np.int8), ["time,verb,job,nodes"]

    def look(self) -> None:
        s, jobs = self.s, self.s.jobs[0]
        for j in np.flatnonzero((jobs["status"] != self.before) | (jobs["status"] == DONE)):
            if jobs["status"][j] == DONE and self.before[j] != DONE:
                if self.before[j] != RUNNING:  # it started and ended between two looks
                    self.lines.append(f"{jobs['start'][j]:g},start,{j},")
                self.lines.append(f"{jobs['end'][j]:g},end,{j},")
            elif jobs["status"][j] == RUNNING:
                held, at = [], jobs["held"][j]
                while at >= 0:
                    held.append(f"{s.slices[0, at]['node']}x{s.slices[0, at]['amount'][0]}")
                    at = s.slices[0, at]["next"]
                self.lines.append(f"{jobs['start'][j]:g},start,{j},{' '.join(sorted(held))}")
        self.before = jobs["status"].copy()

    def text(self) -> str:
        body = sorted(self.lines[1:], key=lambda x: (float(x.split(",")[0]), x.split(",")[1], int(x.split(",")[2])))
        return "\n".join([self.lines[0], *body]) + "\n"


def played(s, step) -> str:
    """The log of stepping until nothing is left."""
    log, more = Log(s), True
    while more:
        more = step()
        log.look()
    return log.text()


def ranked_pool() -> str:
    """`sjf+easy` by ranks."""
    w = on_pool()
    s = allocate([w], w.cluster)
    p = pool.scheduler(s, 0, pool.static_order(resolve("sjf+easy").rule.order, s, 0), None, True, np.inf)
    return played(s, lambda: pool.run(s, 0, p, 1))


def pool_by_scores() -> str:
    """`wfp3+easy`, scored at every event."""
    w = on_pool()
    s, rule = allocate([w], w.cluster), resolve("wfp3+easy").rule
    b = scored_pool.scheduler(s, 0)
    return played(s, lambda: scored_pool.run(s, 0, b, rule, 1))


def nodes_list() -> str:
    """`saf+easy+spread` on two nodes."""
    w = on_nodes()
    s, rule = allocate([w], w.cluster), resolve("saf+easy+spread").rule
    p = blank(len(w), 2, 1)
    return played(s, lambda: list_loop.run(s, 0, rule, np.empty(0), NONE, p, 1))


def nodes_conservative() -> str:
    """`fcfs+conservative` on two nodes."""
    w = on_nodes()
    s, rule = allocate([w], w.cluster), resolve("fcfs+conservative").rule
    p = blank(len(w), 2, 1)
    return played(s, lambda: list_loop.run(s, 0, rule, np.empty(0), NONE, p, 1))


def python_asked() -> str:
    """`lxf+easy` asked at every instant."""
    w, starts = on_nodes(), Log

    class Noticing(jw.Simulation):
        def apply(self, decisions, by="policy"):
            until = super().apply(decisions, by)
            log.look()
            return until

    sim = Noticing(w)
    log = starts(sim.state)
    for _ in asked(sim, resolve("lxf+easy+pack")):
        pass
    log.look()
    return log.text()


def window_of_two() -> str:
    """DRAS's way to act, whoever is the second in the window is chosen."""
    w, act = on_pool(), WindowSettings("reserve")
    s = allocate([w], w.cluster)
    c, log = act.allocate(s, 2), Log(s)
    more = ask(s, c, BEGIN)
    while more:
        log.look()
        more = ask(s, c, 1, ENDED)
    log.look()
    return log.text()


def slots_of_two() -> str:
    """Two slots, a backlog of two, the void action now and then."""
    w, settings = on_nodes(), SlotsSettings(slots=2, backlog=2, rows=12, placements=("pack", "spread"), reserve=False)
    s = allocate([w], w.cluster, tick=1.0)
    world, log, k = settings.attach(s, w.cluster), Log(s), 0
    left = world.begin()
    while left:
        log.look()
        left = world.advance(np.array([(0, 3, 4, 1, 2)[k % 5]]))
        k += 1
    log.look()
    return log.text()


LOOPS = (ranked_pool, pool_by_scores, nodes_list, nodes_conservative, python_asked, window_of_two, slots_of_two)


@pytest.mark.xdist_group("grid")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_does_what_it_did(loop):
    found = loop()
    assert found.count("start") == found.count("end") == 8
    assert found == (FOLDER / f"{loop.__name__}.csv").read_text()


# ------------------------------------------------------------------ whole schedules, where a twin would be a second simulator


def schedule(w, name) -> str:
    """Starts of all jobs, s."""
    return "job,start\n" + "".join(f"{j},{x:.3f}\n" for j, x in enumerate(jw.simulate(w, name).jobs["start"]))


def crowded(count: int = 700):
    return jw.campaigns(count + 900, procs=64, load=1.1, seed=3, users=9).take(slice(900, None))


def promised() -> str:
    """A promise and a lane behind an order by history: leads, reservations, who is express."""
    return schedule(crowded(), "smith-aged+easy+express1%+promise1.1x")


def promised_wide() -> str:
    """A promise alone, where half of the jobs need a quarter of the machine or more: several reservations at once."""
    w = jw.lublin(900, procs=32, load=1.1, seed=4, umed=1.5, estimates="users").take(slice(400, None))
    return schedule(w, "saf+easy+promise1x")


def history_on_a_site() -> str:
    """An order by history behind Slurm's own passes: what it learns of ends."""
    from jobwise.workloads.sites import on_site

    return schedule(on_site(crowded(400), 16, 4), "smith-aged+slurm")


SCHEDULES = (promised, promised_wide, history_on_a_site)


@pytest.mark.xdist_group("forecast")
@pytest.mark.parametrize("made", SCHEDULES, ids=lambda f: f.__name__)
def test_a_schedule_is_what_it_was(made):
    assert made() == (FOLDER / f"{made.__name__}.csv").read_text()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    LOOPS = (*LOOPS, *SCHEDULES)
    for one in LOOPS if len(sys.argv) < 2 else [f for f in LOOPS if f.__name__ in sys.argv]:
        (FOLDER / f"{one.__name__}.csv").write_text(one())
