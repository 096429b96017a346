"""What Slurm's commands say when its controller does not answer.

Modules: slurm/client.py.
"""

import os
import signal
import time

import pytest
from conftest import programs, real_slurm
from cycles import Shadowing
from test_live import cluster  # noqa: F401

from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.sinks.journal import Journal
from jobwise.policies.names import resolve
from jobwise.slurm.client import Slurm, SlurmError, complaint

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]

LOST = """{"meta": {"Slurm": {"version": {"major": "22"}}}, "errors": [ {"description": "Failed while looking for jobs",
"error_number": -1, "error": "Unspecified error", "source": "slurm_load_jobs"} ], "jobs": [ ]}"""  # 22.05.8, exit code 0


@pytest.mark.parametrize(
    "text, says",
    [
        (LOST, "slurm_load_jobs: Failed while looking for jobs: Unspecified error"),
        ('{"errors": [], "jobs": []}', ""),
        ('{"errors": [\n], "warnings": [{"description": "x"}], "jobs": []}', ""),
        (r'{"jobs": [{"name": "\"errors\": [1]"}], "errors": []}', ""),
        ('{"errors": ["no"], "jobs": []}', "['no']"),
        ('{"errors": [1', ""),
    ],
)
def test_what_went_wrong_in_an_answer(text, says):
    assert complaint(text) == says


def test_a_kept_answer_that_failed_is_no_empty_queue(cluster):  # noqa: F811
    (cluster / "squeue.json").write_text(LOST)
    with pytest.raises(InputError, match="squeue failed: slurm_load_jobs: Failed while looking for jobs"):
        sources.look(cluster)


@pytest.mark.slurm
def test_a_cycle_without_an_answer_fails_and_forgets_no_job(tmp_path, monkeypatch, cluster):  # noqa: F811
    """Three cycles, the second without a controller: the third has the same jobs, none of them new."""
    text = (cluster / "squeue.json").read_text()
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster))
    (tmp_path / "state").mkdir()
    reader, shadow = sources.ClusterReader(Slurm()), Shadowing(resolve("saf+easy"), Journal(tmp_path / "state"))
    try:
        first, _ = shadow.cycle(reader.look())
        (cluster / "squeue.json").write_text(LOST)
        with pytest.raises(SlurmError, match="squeue: slurm_load_jobs: Failed while looking for jobs"):
            reader.look()
        (cluster / "squeue.json").write_text(text)
        last, events = shadow.cycle(reader.look())
        assert set(last.cluster.waiting) == set(first.cluster.waiting) and not any(events.values())
    finally:
        shadow.journal.close()
        reader.close()


@pytest.mark.slurm
def test_a_real_slurm_without_its_controller_raises(monkeypatch):
    with real_slurm(2, 2) as folder:
        monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        slurm = Slurm(timeout_s=30)
        id = slurm.submit("#!/bin/sh\nsleep 60\n", name="a", minutes=5)
        assert [x.id for x in slurm.jobs()] == [id]
        os.kill(int((folder / "run" / "slurmctld.pid").read_text()), signal.SIGTERM)
        time.sleep(1)
        for question in (slurm.jobs, slurm.required, slurm.limited, slurm.nodes, slurm.priorities):
            with pytest.raises(SlurmError):
                question()
