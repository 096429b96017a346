"""Logs of other systems are named for what they are, in one line with what would be right."""

import pytest

from jobwise.errors import InputError
from jobwise.workloads.foreign import known
from jobwise.workloads.source import open_log

TEXTS = {
    "a PBS or Torque accounting log": "04/12/2024 00:01:02;E;123.server;user=ann queue=batch Resource_List.ncpus=4\n",
    "an LSF lsb.acct file": '"JOB_FINISH" "10.1" 1712880000 101 1000 33554438 4 1712870000 0 0\n',
    "a Grid Engine accounting file": "all.q:node1:users:ann:sleep:101:sge:0:1712870000:1712870010:1712870100:0:0:90\n",
    "a Nextflow trace": "task_id\thash\tnative_id\tname\tstatus\n1\tab/cd\t77\tsort\tCOMPLETED\n",
    "a table of GPU jobs in columns that are not known": "job_id,user,node_num,gpu_num,cpu_num,state,submit_time\n1,a,1,8,64,DONE,1\n",
    "a CSV table in columns that are not known": "time,type,collection_id,priority,instance_index\n0,1,2,3,4\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_log_of_another_system_is_named(tmp_path, name):
    (tmp_path / "log.txt").write_text(TEXTS[name])
    with pytest.raises(InputError, match=rf"log\.txt: is {name}, which is not read; "):
        open_log(str(tmp_path / "log.txt"))


def test_slurms_json_says_where_it_is_read(tmp_path):
    (tmp_path / "sacct.json").write_text('{"jobs": [{"account": "lab", "job_id": 1}], "meta": {}}')
    with pytest.raises(InputError, match="is Slurm's JSON .*, which is not read; put it into a folder as sacct.json"):
        open_log(str(tmp_path / "sacct.json"))


def test_a_log_that_is_only_damaged_keeps_its_line(tmp_path):
    (tmp_path / "log.swf").write_text("; Version: 2\n1 0 0 10 1\n")
    with pytest.raises(InputError, match=r"log\.swf:2: 5 fields; a job has 18"):
        open_log(str(tmp_path / "log.swf"))
    assert known("1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n") == ""
