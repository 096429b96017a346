"""Every pass of recordings of real Slurms, of three versions: starts, stops and plans as they were recorded.

Modules: sim/site/preemption.py, sim/site/slurm_ends.py, sim/site/slurm_plan.py, slurm/judge/open_loop.py, slurm/read/recording.py.
"""

import tarfile
from pathlib import Path

import pytest

from jobwise.slurm.judge.closed_loop import follow
from jobwise.slurm.judge.open_loop import check
from jobwise.slurm.read import recording

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
PLANS = {  # of which as many may differ: nodes that were completing, which no log tells, explain them; of 22.05-switches, a cycle
    # that began some milliseconds before the second in which a job had waited long enough for few switches
    "22.05-preemption": (5462, 0),
    "22.05-switches": (4591, 30),
    "24.11-limits": (360, 0),
    "24.11-preemption": (4877, 14),
    "24.11-switches": (6296, 0),
    "26.05-kinds": (3121, 0),
    "26.05-preemption": (5219, 2),
    "26.05-stock": (359, 0),
    "26.05-switches": (5487, 0),
}


@pytest.mark.slurm
@pytest.mark.parametrize("name", PLANS)
def test_every_pass_is_as_it_was_recorded(tmp_path, name):
    with tarfile.open(RECORDINGS / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    r = recording.read(tmp_path / name)
    done, (plans, differ) = check(r), PLANS[name]
    starts = done.main.all + done.backfill.all
    assert starts == len(r.workload) + done.stops.all  # requeued jobs start again
    assert done.main.equal + done.main.explained + done.backfill.equal + done.backfill.explained == starts
    assert done.stops.equal == done.stops.all and (done.stops.all > 0) == ("preemption" in name)
    assert done.plans.all == plans and plans - done.plans.equal <= differ
    closed = follow(r, done)
    assert closed.near == 1.0 and abs(closed.error) < 0.01  # with the recorded clocks
