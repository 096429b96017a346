"""State folders that stay: what an earlier version wrote is opened, gone on with, and given back."""

import shutil

import pytest
from conftest import TESTS
from cycles import Shadowing, Steering
from test_live import cluster  # noqa: F401
from test_steer import Fake, Looks

from jobwise.live import sources
from jobwise.live.sinks.journal import Journal
from jobwise.live.sinks.placing import free_all
from jobwise.live.state_folder import StateFolder, undo
from jobwise.live.steer import SteerSettings
from jobwise.policies.names import resolve

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]


@pytest.fixture
def state(tmp_path):
    """What steering with places and a shadow had written of the small cluster when they were killed, before the source had
    rooms: 9005, of site factor 7, has 1,000 and node n4."""
    shutil.copytree(TESTS / "data" / "state0.2", tmp_path / "state")
    return tmp_path / "state"


def test_what_steering_wrote_is_given_back(state):
    slurm = Fake({9004: 0, 9005: 1000, 9006: 0}, {9004: 100, 9005: 103, 9006: 106}, table={9005: ("PENDING", "n4")})
    kept = StateFolder(state)
    assert kept.before == {9005: 7} and kept.placed == {9005: "n4"}
    assert undo(slurm, kept, "asked for") == 1 and slurm.factors == {9004: 0, 9005: 7, 9006: 0}
    assert free_all(slurm, kept, "asked for") == 1 and slurm.placed == [{9005: []}]
    kept.close()


def test_steering_goes_on_in_it(state, cluster):  # noqa: F811
    slurm = Fake({9004: 0, 9005: 1000, 9006: 0}, {9004: 100, 9005: 103, 9006: 106})
    lines = (state / "audit.jsonl").read_text()
    with Steering(slurm, resolve("sjf"), state, SteerSettings(1000), Looks(cluster, slurm), foresee=0) as s:
        assert s.cycle().problem == "" and slurm.factors[9005] != 7
    assert slurm.factors == {9004: 0, 9005: 7, 9006: 0}
    assert (state / "audit.jsonl").read_text().startswith(lines)


def test_a_journal_goes_on(state, cluster):  # noqa: F811
    """Who waited and ran then is known; 9003 and 9006, which had left, are new."""
    journal = Journal(state)
    assert journal.rows("select count(*) from cycle") == [(1,)] and journal.rows("select count(*) from wish")[0][0] > 0
    jobs = journal.rows("select id from job order by id")
    shadow = Shadowing(resolve("sjf+easy"), journal)
    assert 9004 in shadow.calibration.job
    text = (cluster / "now.txt").read_text()
    (cluster / "now.txt").write_text(f"{float(text) + 60:.3f}\n")
    _, events = shadow.cycle(sources.look(cluster), 2)
    assert jobs == [(9001,), (9002,), (9004,), (9005,)] and {9003, 9006} <= set(events["submitted"])
    assert not {id for (id,) in jobs} & set(events["submitted"])
    assert journal.rows("select count(*) from cycle") == [(2,)]
    journal.close()
