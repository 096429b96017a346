"""Logs of other systems are named for what they are, in one line with what would be right."""

import pytest

from jobwise.errors import InputError
from jobwise.workloads.foreign import known
from jobwise.workloads.source import open_log

TEXTS = {
    "a Nextflow trace": "task_id\thash\tnative_id\tname\tstatus\n1\tab/cd\t77\tsort\tCOMPLETED\n",
    "a table of GPU jobs in columns that are not known": "job_id,user,node_num,gpu_num,cpu_num,state,submit_time\n1,a,1,8,64,DONE,1\n",
    "a table in columns that are not known": "when;who;what;how\n0;1;2;3\n",
    "Google's Borg events, not jobs": "time,type,collection_id,priority,instance_index\n0,1,2,3,4\n",
    "XML": "<?xml version='1.0'?><jobs/>\n",
    "JSON of no kind that is known": '{"a": {"b": 1}, "c": 2}\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_log_of_another_system_is_named(tmp_path, name):
    (tmp_path / "log.txt").write_text(TEXTS[name])
    with pytest.raises(InputError, match=rf"log\.txt: is {name}.*, which is not read; "):
        open_log(str(tmp_path / "log.txt"))


def test_what_is_no_log_at_all_is_not_taken_for_swf(tmp_path):
    for n, text in enumerate(("To be, or not to be\n", "<html><body>404</body></html>\n", "1,2,3\n4,5,6\n", "#!/bin/sh\n")):
        (tmp_path / f"{n}.txt").write_text(text)
        with pytest.raises(InputError, match=r"\.txt: is in no format that jobwise knows \(SWF, .*--columns says"):
            open_log(str(tmp_path / f"{n}.txt"))


def test_a_log_that_is_only_damaged_keeps_its_line(tmp_path):
    (tmp_path / "log.swf").write_text("; Version: 2\n1 0 0 10 1\n")
    with pytest.raises(InputError, match=r"log\.swf:2: 5 fields; a job has 18"):
        open_log(str(tmp_path / "log.swf"))
    assert known("1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n") == ""
