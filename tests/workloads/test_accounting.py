"""sacct by columns: rows with | in their last column, lines in errors, times, distinct texts; Slurm's JSON of two versions.

Modules: slurm/read/documents.py, slurm/read/jobs.py, slurm/read/requests.py, slurm/read/startable.py,
workloads/sacct.py.
"""

import json
import shutil

import numpy as np
import pytest

from jobwise.cli.main import run as cli
from jobwise.errors import InputError
from jobwise.slurm.read.asks import OPTIONS, OTHERS
from jobwise.slurm.read.requests import by_line, options
from jobwise.slurm.read.site import read as read_site
from jobwise.workloads import slurm_json
from jobwise.workloads.accounting import forgiving, left_out, read
from jobwise.workloads.fields import gpus_in
from jobwise.workloads.sacct import elapsed, from_text, queued, ran, read_sacct, times

HEAD = "JobID|JobIDRaw|State|Submit|Eligible|Start|End|ElapsedRaw|SubmitLine"


def row(job="1", state="COMPLETED", start="100", end="160", run="60", line="sbatch a.sh"):
    stamps = [str(1_800_000_000 + int(x)) if x.isdigit() else x for x in ("0", "5", start, end)]
    return "|".join([job, job, state, *stamps, run, line])


def test_rows_stay_in_order_and_lines_are_those_of_the_file():
    a = read("\n".join([HEAD, row("1"), "", row("2", line="sbatch --wrap=a|b"), row("3"), "  ", row("4")]), "x")
    assert a.line.tolist() == [2, 4, 5, 7] and a.columns["SubmitLine"][1].as_py() == "sbatch --wrap=a|b"
    assert read(f"{HEAD}|\r\n{row('1')}|\r\n{row('2')}|\r\n", "x").columns["JobID"].to_pylist() == ["1", "2"]
    a = read("\n".join([HEAD, row(), row(), "1|2|3", row(), "4|5"]), "x")
    assert a.line.tolist() == [2, 3, 5] and a.unread == {"x:4: 3 fields; the header names 9": 2}
    assert left_out(a) == {"that cannot be read (the first: x:4: 3 fields; the header names 9)": 2}
    assert len(read(HEAD, "x")) == 0 and len(read(HEAD + "\n\n\n", "x")) == 0


def test_columns_that_are_wanted():
    a = read("\n".join([HEAD, row("1"), row("2", line="x|y")]), "x", {"JobID", "Start"})
    assert set(a.columns) == {"JobID", "Start"} and a.columns["JobID"].to_pylist() == ["1", "2"]


def test_times_in_both_forms_and_none():
    iso = HEAD + "\n1|1|COMPLETED|2026-01-01T00:00:00|Unknown|2026-01-01T00:00:10|None|9|x"
    a = read(iso + "\n2|2|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01|2026-01-01T00:01:40|9|x", "x")
    assert times(a, "Start").tolist() == [1767225610.0, 1767225600.0] and np.isnan(times(a, "Eligible")[0])
    with pytest.raises(InputError, match="x:3: Start is '1767225600', others are in another form"):
        times(read(iso + "\n2|2|COMPLETED|1767225600|1767225600|1767225600|1767225700|9|x", "x"), "Start")
    assert queued(a, times(a, "Start")).tolist() == [1767225600.0, 1767225600.0]
    with pytest.raises(InputError, match=r"x:3: Start is 'soon'"):
        times(read("\n".join([HEAD, row(), row(start="soon")]), "x"), "Start")


def test_rows_that_are_wrong_for_many_reasons_leave_together():
    a, asked = read("\n".join([HEAD, row(), *(row(start=f"soon{i}") for i in range(50))]), "x"), []

    def work(rows):
        asked.append(len(rows))
        return rows, times(rows, "Start")

    rows, start = forgiving(a, work)
    assert asked == [51, 1] and len(start) == 1 and sum(rows.unread.values()) == 50
    both = read("\n".join([HEAD, row(), *(row(start="2026-01-01T00:00:00") for _ in range(3))]), "x")
    assert len(forgiving(both, lambda rows: times(rows, "Start"))) == 3  # those of the rarer form leave


def test_runs_that_were_put_back_have_ended():
    rows = [
        row("1", "REQUEUED"),
        row("1"),
        row("2", "REQUEUED", end="Unknown"),
        row("3", "RUNNING", end="Unknown"),
        row("4.batch"),
    ]
    a, _, left = ran(read("\n".join([HEAD, *rows]), "x"))
    assert a.columns["JobID"].to_pylist() == ["1", "1"] and left == {"job steps": 1, "not ended": 2}
    assert elapsed(a, times(a, "Start")).tolist() == [60, 60]


@pytest.mark.parametrize(
    "line",
    [
        "sbatch -n 4 --mem-per-cpu=2G -t 60 --output=/x/1.txt run.sh -n 99",
        "sbatch --exclusive -N2 -c 2 -J name -o out.txt run.sh --nodes=7",
        "sbatch --parsable -p batch --gres=gpu:a100:2 --nice=5 -C fast job 3",
        "sbatch -N 2-4 --ntasks 8 --constraint=a&b --wrap=sleep 10",
        "sbatch",
        "srun --pty bash",
    ],
)
def test_a_line_asks_for_the_same_without_what_says_nothing(line):
    import pyarrow as pa
    import pyarrow.compute as pc

    cut = pc.struct_field(pc.extract_regex(pa.array([line]), f"(?P<o>{OPTIONS})"), "o")
    short = pc.replace_substring_regex(cut, OTHERS, "")[0].as_py()
    full, less = options(line), options(short)
    assert by_line(full, (1, 2)) == by_line(less, (1, 2)) and full.get("constraint") == less.get("constraint")


def test_json_of_two_versions(samples, tmp_path, capsys):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        shutil.copy(samples / "scontrol_config.txt", folder)
    shutil.copy(samples / "sacct.json", old)
    shutil.copy(samples / "sinfo.json", old / "scontrol_node.json")
    shutil.copy(samples / "rest_partitions.json", old / "scontrol_partition.json")
    shutil.copy(samples / "sacct_sample.txt", new / "sacct.txt")
    shutil.copy(samples / "scontrol_node_2411.json", new / "scontrol_node.json")
    shutil.copy(samples / "scontrol_partition_2411.json", new / "scontrol_partition.json")
    a, b = read_site(old), read_site(new)
    assert a.cluster.total.tolist() == b.cluster.total.tolist() == [64, 128_000, 16] and len(a) == 1 and len(b) == 189
    assert a.jobs["request"][0].tolist() == [4, 4000, 0] and a.truth["runtime"][0] == 3 and a.jobs["walltime"][0] == 1800
    assert b.cluster.site.partition_names == ("batch",) and np.isinf(b.cluster.site.partitions["max_time"][0])
    for name, text, said in (
        ("scontrol_node.json", (samples / "scontrol_node_2411.json").read_text()[:500], "no whole JSON"),
        ("scontrol_partition.json", "[]", "a list 'partitions'"),
        ("scontrol_node.json", '{"nodes": []}', "is empty"),
    ):
        kept = (new / name).read_text()
        (new / name).write_text(text)
        assert cli(["slurm", "site", str(new)]) == 2
        assert said in (error := capsys.readouterr().err) and len(error.strip().splitlines()) == 1
        (new / name).write_text(kept)


def test_numbers_as_24_11_writes_them():
    row = {
        "a": {"set": True, "infinite": False, "number": 5},
        "b": {"set": False, "infinite": True, "number": 0},
        "c": ["X", "Y"],
    }
    row |= {"d": {"set": False, "infinite": False, "number": 0}}
    assert [slurm_json.at(row, k) for k in "abcde"] == ["5", "UNLIMITED", "X", "", ""]
    assert slurm_json.objects_of(json.dumps({"jobs": [row]}), "x", "jobs") == [row]


def test_a_folder_of_two_clusters_gets_one_line(tmp_path):
    from conftest import write_site

    folder = write_site(tmp_path / "site")
    text = (folder / "sacct.txt").read_text()
    (folder / "sacct.txt").write_text(text.replace("|n1|", "|other7|"))
    with pytest.raises(InputError, match="are the files of one cluster"):
        read_site(folder)
    (folder / "sacct.txt").write_text(text)
    config = (folder / "scontrol_config.txt").read_text()
    (folder / "scontrol_config.txt").write_text("ClusterName = here\nPriorityWeightFairShare = 5\n" + config)
    (folder / "sacctmgr_assoc.txt").write_text("Cluster|Account|User|Share|ParentName\nthere|all||1|root\n")
    with pytest.raises(InputError, match="two clusters"):
        read_site(folder)
    (folder / "sacctmgr_assoc.txt").write_text("Cluster|Account|User|Share|ParentName\nhere|all||1|root\nhere|all|u1|1|\n")
    nodes = (folder / "scontrol_node.txt").read_text()
    (folder / "scontrol_node.txt").write_text(nodes.replace("State=IDLE", "State=IDLE+DRAIN", 1))
    told = " ".join(read_site(folder).cluster.site.guesses)
    assert "have no association" in told and "out of service" in told


def test_jobs_wait_for_the_end_of_those_they_depend_on(tmp_path):
    from conftest import write_site

    import jobwise as jw

    folder = write_site(tmp_path / "site", jobs=40)
    rows = (folder / "sacct.txt").read_text().splitlines()
    cells = [r.split("|") for r in rows]
    at = {n: i for i, n in enumerate(cells[0])}
    child, parent = cells[9], cells[5]
    parent[at["ElapsedRaw"]], end = "9000", int(parent[at["Start"]]) + 9000
    child[at["Start"]] = child[at["Eligible"]] = str(end)
    child[at["End"]] = str(end + int(child[at["ElapsedRaw"]]))
    child[at["SubmitLine"]] = f"sbatch -n 1 --dependency=afterok:{parent[at['JobIDRaw']]}:999 job.sh"
    (folder / "sacct.txt").write_text("\n".join("|".join(c) for c in cells) + "\n")
    w = read_site(folder)
    assert len(w.edges) == 1
    for policy in ("slurm", "fcfs+easy"):
        r = jw.simulate(w, policy)
        a, b = (int(np.flatnonzero(w.columns["job"] == int(c[at["JobIDRaw"]]))[0]) for c in (parent, child))
        assert r.jobs["start"][b] >= r.jobs["end"][a] and w.jobs["submit"][b] < r.jobs["end"][a]


def test_what_the_script_says_counts_where_the_line_is_silent(tmp_path):
    from conftest import write_site

    folder = write_site(tmp_path / "site", jobs=50)
    plain, text = read_site(folder), (folder / "sacct.txt").read_text()
    assert plain.jobs["request"][:, 0].max() > 4
    for line in (
        "sbatch --parsable job.sh",
        "sbatch -Q job.sh",
        "sbatch --mem=100M job.sh",
        'sbatch -J "my job" job.sh',
        "sbatch -n 8k x",
    ):
        (folder / "sacct.txt").write_text(
            "\n".join(r.rsplit("|", 1)[0] + f"|{line}" if i else r for i, r in enumerate(text.splitlines()))
        )
        w = read_site(folder)
        assert (w.jobs["request"][:, 0] == plain.jobs["request"][:, 0]).all(), line
        assert ("cannot be read" in " ".join(w.cluster.site.guesses)) == ("8k" in line)


def test_what_does_not_fit_together_is_named(tmp_path):
    from conftest import write_site

    folder = write_site(tmp_path / "site", jobs=50)
    text = (folder / "sacct.txt").read_text()
    rows = text.splitlines()
    (folder / "sacct.txt").write_text("\n".join([*rows, *rows[1:11]]).replace("|normal|", "|night|", 3) + "\n")
    partition = (folder / "scontrol_partition.txt").read_text()
    (folder / "scontrol_partition.txt").write_text(
        partition.replace("MaxTime=UNLIMITED State=UP", "MaxTime=1 State=DOWN MaxNodes=1")
    )
    w = read_site(folder)
    told = " ".join(w.cluster.site.guesses)
    assert len(w) == 50 and w.dropped["given twice"] == 10
    assert "jobs of QOS night" in told and "MaxTime of partition batch" in told and "State of partition batch" in told
    import jobwise as jw

    assert np.isfinite(jw.simulate(w, "slurm").jobs["end"]).all()


@pytest.mark.parametrize(
    "name, text, said",
    [
        (
            "scontrol_config.txt",
            "Configuration data as of 1\nPriorityType = priority/basic\nClusterName = x\n",
            "its end is missing",
        ),
        ("scontrol_config.txt", "slurm_load_ctl_conf error: Unable to contact", "is no configuration"),
        ("scontrol_node.txt", "slurm_load_node error", "holds no NodeName"),
        ("scontrol_partition.txt", "<html></html>", "holds no PartitionName"),
        ("scontrol_partition.txt", "PartitionName=batch Nodes= State=UP\n", "no partition has nodes"),
        ("sacctmgr_qos.txt", "Name|Prio\n", "holds no rows"),
        ("sacctmgr_qos.txt", "Nam|Priority\nnormal|0\n", "no column Name"),
        ("sacctmgr_assoc.txt", "Cluster|Account|User|Share\ntest|bio\n", "sacctmgr_assoc.txt:2: no column User"),
        ("scontrol_node.txt", "NodeName=n1 CPUTot=99999999999999999999 RealMemory=1\n", "scontrol_node.txt"),
    ],
)
def test_files_of_another_kind_get_one_line(tmp_path, capsys, name, text, said):
    from conftest import write_site

    folder = write_site(tmp_path / "site")
    (folder / name).write_text(text)
    assert cli(["slurm", "site", str(folder)]) == 2
    assert said in (error := capsys.readouterr().err) and len(error.strip().splitlines()) == 1


def test_a_mark_at_the_beginning_is_no_part_of_a_name(tmp_path):
    from conftest import write_site

    folder = write_site(tmp_path / "site")
    for file in folder.iterdir():
        file.write_text("\ufeff" + file.read_text())
    assert len(read_site(folder)) == 60 and not read_site(folder).cluster.site.guesses


def test_limits_that_are_not_enforced_do_not_count(tmp_path):
    from conftest import write_site

    folder = write_site(tmp_path / "site")
    (folder / "sacctmgr_qos.txt").write_text("Name|Priority|MaxWall|GrpTRES|MaxTRESPU|MaxJobsPU|GrpJobs\nnormal|0||cpu=16|||\n")
    config = (folder / "scontrol_config.txt").read_text()
    for told, limit in (("none", np.inf), ("associations,limits", 16.0)):
        (folder / "scontrol_config.txt").write_text(f"{config}AccountingStorageEnforce = {told}\n")
        w = read_site(folder)
        assert w.cluster.site.qos[0]["all"][1] == limit and bool(w.cluster.site.guesses) == np.isinf(limit)


FULL = "JobIDRaw|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|AllocTRES"


def accounted(*rows):
    """A log of rows (submit, eligible, start, s, limit, CPUs, TRES), times in s from 2027-01-15."""
    lines = [FULL]
    for i, (submit, eligible, start, run, limit, cpus, tres) in enumerate(rows, 1):
        stamps = [str(1_800_000_000 + x) for x in (submit, eligible, start, start + run)]
        lines.append(f"{i}|u|COMPLETED|{'|'.join(stamps)}|{run}|{limit}|{cpus}|{tres}")
    return from_text("\n".join(lines), "x")


def test_a_job_is_not_in_the_queue_before_it_is_submitted():
    """Clocks of two machines: one job was eligible 10 s before it was submitted; another 20 s after."""
    w = accounted((0, 0, 0, 5, 1, 1, ""), (30, 20, 40, 5, 1, 1, ""), (60, 80, 90, 5, 1, 1, ""))
    assert w.jobs["submit"].tolist() == [0, 30, 80] and w.columns["wait"].tolist() == [0, 10, 10]


def test_a_machine_is_as_large_as_what_ran_at_once():
    """The second job starts in the second in which the first ends: four CPUs hold both."""
    assert accounted((0, 0, 0, 100, 9, 4, ""), (0, 0, 100, 50, 9, 4, "")).cluster.processors == 4
    assert accounted((0, 0, 0, 101, 9, 4, ""), (0, 0, 100, 50, 9, 4, "")).cluster.processors == 8


def test_a_job_without_a_limit_may_have_run_for_longer_than_a_year():
    year = 365 * 86_400
    w = accounted((0, 0, 0, 2 * year, "UNLIMITED", 1, ""), (1, 1, 1, 60, "UNLIMITED", 1, ""), (2, 2, 2, 60, 7, 1, ""))
    assert w.jobs["walltime"].tolist() == [2 * year, year, 420]


def test_a_row_without_elapsed_seconds_ran_from_start_to_end():
    begin = 1_800_000_000
    rows = [
        f"1|u|COMPLETED|{begin}|{begin}|{begin}|{begin + 60}|55|9|1|",
        f"2|u|COMPLETED|{begin}|{begin}|{begin}|{begin + 90}||9|1|",
    ]
    w = from_text("\n".join([FULL, *rows]), "x")
    assert w.truth["runtime"].tolist() == [55, 90]


def test_gpus_are_counted_once_with_their_types_or_without():
    for text, count in (
        ("cpu=1,gres/gpu=4", 4), ("gres/gpu:a100=2,gres/gpu:v100=1", 3), ("gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1", 3),
        ("gpu:2", 2), ("gpu:a100:2", 2), ("cpu=8,mem=4G", 0),
    ):  # fmt: skip
        assert gpus_in(text) == count, text


def test_a_partition_list_counts_only_where_all_of_it_is_there(tmp_path):
    """A job that named a partition which is gone: it has the one in which it ran."""
    from conftest import write_site

    folder = write_site(tmp_path / "site", jobs=30)
    part = (folder / "scontrol_partition.txt").read_text()
    (folder / "scontrol_partition.txt").write_text(part + part.replace("=batch", "=long"))
    lines = (folder / "sacct.txt").read_text().splitlines()
    for row, names in ((1, "batch,long"), (2, "batch,gone"), (3, "long,batch")):
        lines[row] = lines[row].replace("sbatch -n", f"sbatch -p {names} -n")
    (folder / "sacct.txt").write_text("\n".join(lines) + "\n")
    w = read_site(folder)
    named = {int(id): w.names["partition"][int(p)] for id, p in zip(w.columns["job"], w.jobs["partition"], strict=True)}
    assert [named[i] for i in (1, 2, 3, 4)] == ["batch,long", "batch", "long,batch", "batch"]


NAMED = "JobID|JobName|State|Submit|Start|End|NCPUS|ElapsedRaw|SubmitLine"


def named(id, name="sleep", line="sbatch x.sh", elapsed="100", submit="1767225600"):
    return f"{id}|{name}|COMPLETED|{submit}|1767225700|1767225800|2|{elapsed}|{line}"


def test_a_bar_or_an_end_of_line_in_a_users_text_leaves_the_row_whole():
    text = [
        NAMED,
        named(1, name="crazy|name"),
        named(2, line='srun bash -c "a &&\nb | c"'),
        named(3, "a|b|c"),
    ]
    a = read("\n".join(text), "x")
    assert a.columns["JobID"].to_pylist() == ["1", "2", "3"] and not a.unread
    assert (
        a.columns["JobName"].to_pylist()[:2] == ["crazy|name", "sleep"] and a.columns["ElapsedRaw"].to_pylist() == ["100"] * 3
    )
    assert a.columns["SubmitLine"][1].as_py() == 'srun bash -c "a && b | c"'


def test_a_row_that_cannot_be_read_is_left_out_and_named():
    text = "\n".join(
        [NAMED, named(1), named(2, elapsed="soon"), named(3), named(4, elapsed="soon"), named(5, submit="never"), "6|7"]
    )
    w = from_text(text, "x")
    assert len(w) == 2
    (reason,) = [k for k in w.dropped if "cannot be read" in k]
    assert w.dropped[reason] == 4 and "the first: x:7: 2 fields; the header names 9" in reason
    with pytest.raises(InputError, match="x:2: ElapsedRaw is 'soon'"):
        from_text("\n".join([NAMED, named(1, elapsed="soon")]), "x")


def test_offsets_of_times_count():
    """Over the end of daylight saving: 02:30+0200 is half an hour before 02:00+0100."""
    head = "JobID|State|Submit|Start|End|NCPUS"
    rows = ["1|COMPLETED|2025-10-26T02:30:00+0200|2025-10-26T02:00:00+0100|2025-10-26T02:30:00+0100|2"]
    a = read("\n".join([head, *rows]), "x")
    assert times(a, "Start")[0] - times(a, "Submit")[0] == 1800.0 and times(a, "Submit")[0] == 1761438600.0


def test_jobs_whose_line_says_no_requeue_must_not_be_begun_again(tmp_path):
    head = "JobIDRaw|User|State|Submit|Start|End|NCPUS|TimelimitRaw|SubmitLine"
    rows = [
        f"{k}|ann|COMPLETED|2026-01-01T00:00:0{k}|2026-01-01T00:01:00|2026-01-01T00:02:00|1|10|{line}"
        for k, line in enumerate(
            ["sbatch a.sh", "sbatch --no-requeue a.sh", "sbatch a.sh --no-requeue", "sbatch x--no-requeue.sh"]
        )
    ]
    file = tmp_path / "jobs.sacct"
    file.write_text("\n".join([head, *rows]) + "\n")
    w = read_sacct(file)
    assert w.jobs["restartable"].tolist() == [1, 0, 0, 1]
    assert w.notes["must not be begun again (--no-requeue)"] == 2
