"""A site's own Slurm: what was recorded on a real one is the oracle (priorities, plans, starts)."""

import csv
from pathlib import Path

import numpy as np
import pytest

from jobwise.sim import kernel, slurm_loop
from jobwise.sim.multifactor import price, price_all, priority
from jobwise.sim.state import LEFT, allocate
from jobwise.slurm.site import names_of, read

RECORDED = Path(__file__).parent.parent.parent / "shared" / "slurm" / "recorded"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="recordings of a real Slurm are absent")


def events(folder, kind):
    with open(folder / "events.csv") as file:
        return [(float(r["epoch_s"]), r) for r in csv.DictReader(file) if r["event"].startswith(kind)]


def snapshots(file):
    """(time, {job: fields}) of sprio.txt."""
    found = []
    for line in file.read_text().splitlines():
        if line.startswith("# t="):
            found.append((float(line[4:]), {}))
        elif not line.startswith("#"):
            row = line.split("|")
            found[-1][1][int(row[0])] = row
    return found


def replayed(folder):
    """Yields (time since 1970, priorities by job id) at each snapshot of sprio, the recorded schedule replayed as it was."""
    w = read(folder)
    jobs, o = w.jobs.copy(), w.origin
    ids, place = w.columns["job"], {n: i for i, n in enumerate(w.cluster.site.names)}
    row = {int(j): i for i, j in enumerate(ids)}
    came = {int(r["job"]): t for t, r in events(folder, "submit")}
    ended = {int(r["job"]): t for t, r in events(folder, "end")} | {int(r["job"]): t for t, r in events(folder, "timeout")}
    s = allocate([w], w.cluster)
    for j, i in row.items():
        s.jobs[0, i]["submit"] = came[j] - o
    happened = [(t - o, 2, int(r["job"]), names_of(r["what"])) for t, r in events(folder, "start_")]
    happened += [(t - o, 3, 0, None) for t, _ in events(folder, "prio_pass")]
    for t, j in [(t, j) for t, r in events(folder, "start_") for j in [int(r["job"])]]:
        s.truth[0, row[j]]["runtime"] = ended[j] - t
    happened += [(t - o, 4, k, rows) for k, (t, rows) in enumerate(snapshots(folder / "sprio.txt"))]
    m = slurm_loop.scheduler(s, 0, w.cluster.site)
    first = min(t for t, kind, *_ in happened if kind == 3)
    m.clock[0]["priced"] = first - w.cluster.site.settings["calc_period"][0]
    planned = plans(folder, w)
    for t, kind, j, more in sorted(happened, key=lambda x: (x[0], x[1])):
        while kernel.advance(s, 0, t) == kernel.CHOICE:
            sim = s.sims[0]
            slurm_loop.note(s, 0, m)
            assert sim["now"] <= t
        if kind == 2:
            ask = w.cluster.site.asks[jobs["ask"][row[j]]]
            node = np.array([place[n] for n in more], np.int32)
            slurm_loop.place(s, 0, m, row[j], node)
            assert s.jobs[0, row[j]]["status"] == 3, (j, ask)
        elif kind == 3:
            for time, job, cpus in planned:
                if time <= t and s.jobs[0, row[job]]["status"] == 2 and w.cluster.site.asks[jobs["ask"][row[job]]]["whole"]:
                    m.planned[row[job]] = cpus
            price_all(s, 0, m)
        elif kind == 4:
            found = {}
            for job in more:
                if s.jobs[0, row[job]]["status"] == 2:
                    found[job] = int(priority(m, row[job], 0))
            yield t + o, found, more


def plans(folder, w):
    """(time, job, CPUs of the nodes that it was planned on) of backfill.csv.gz, in s from the origin."""
    import gzip

    place = {n: i for i, n in enumerate(w.cluster.site.names)}
    with gzip.open(folder / "backfill.csv.gz", "rt") as file:
        for r in csv.reader(file):
            if r[1] == "plan":
                nodes = [place[n] for n in names_of(r[5])]
                yield_ = (float(r[0]) - w.origin, int(r[2]), float(w.cluster.capacity[nodes, 0].sum()))
                PLANS.setdefault(folder.name, []).append(yield_)
    return PLANS[folder.name]


PLANS: dict = {}


@recorded
@pytest.mark.parametrize("name", ["fifo-backfill", "size-qos", "fairshare", "memory-gpu"])
def test_priorities_are_those_that_sprio_printed(name):
    wrong, seen = [], 0
    for t, found, printed in replayed(RECORDED / name):
        for job, mine in found.items():
            seen += 1
            if mine != int(printed[job][3]):
                wrong.append((t, job, mine, printed[job]))
    assert seen > 200
    assert not wrong, (len(wrong), seen, wrong[:5])
