"""Standard Workload Format: reading, rules, writing back, and fuzzing."""

import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.workloads.opened import blocks
from jobwise.workloads.sacct import from_text as sacct_from_text
from jobwise.workloads.source import open_log
from jobwise.workloads.swf import COLUMNS, directive, from_blocks, from_text, read_swf, swf_text, write_swf

HEADER = "; Version: 2.2\n; MaxProcs: 8\n; UnixStartTime: 1000\n"


def line(job=1, submit=0, wait=-1, run=10, allocated=1, requested=1, walltime=20, status=1, user=3):
    return f"{job} {submit} {wait} {run} {allocated} -1 -1 {requested} {walltime} -1 {status} {user} 1 2 3 4 -1 -1"


def text(*lines, header=HEADER):
    return header + "\n".join(lines) + "\n"


def test_the_rules_of_the_reader():
    w = from_text(
        text(
            line(1, 50),
            line(2, 60, run=0),
            line(3, 61, run=-1),
            line(4, 62, allocated=-1, requested=0),
            line(5, 63, requested=9),
            line(6, 70, allocated=4, requested=-1, walltime=-1, run=33),
            line(7, -5),
        ),
        "x.swf",
    )
    assert w.dropped == {"negative submit time": 1, "run time <= 0": 2, "no processors": 1, "larger than the machine": 1}
    assert w.jobs["submit"].tolist() == [0, 20] and w.offset == 50
    assert w.jobs["request"][:, 0].tolist() == [1, 4]
    assert w.jobs["walltime"].tolist() == [20, 33]
    assert w.jobs["user"].tolist() == [3, 3] and w.jobs["app"].tolist() == [2, 2]
    assert w.cluster.processors == 8 and w.origin == 1050
    assert w.columns["job"].tolist() == [1, 6]


def test_machine_size_falls_back():
    assert from_text(text(line(), header="; MaxNodes: 5\n"), "x").cluster.processors == 5
    assert from_text(text(line(requested=7), header="; MaxProcs: -1\n"), "x").cluster.processors == 7


def test_larger_of_both_and_status_filter():
    both = text(line(requested=2, allocated=4), line(2, 1, status=5))
    assert from_text(both, "x", procs="larger").jobs["request"][:, 0].tolist() == [4, 1]
    w = from_text(both, "x", status={1})
    assert len(w) == 1 and w.dropped == {"status filtered": 1}


def test_parts_of_interrupted_jobs_are_no_jobs_of_their_own():
    """Job 1 is there whole, with its two parts behind it, the second without a submit time. Of job 2 only the parts are there: it
    came with the first and runs for 30 + 40 s; it failed, says the last. Job 3 has no parts."""
    rows = [line(1, 50, run=90, status=1), line(1, 50, run=50, status=2), line(1, -1, run=40, status=3)]
    rows += [line(2, 60, run=30, status=2), line(3, 65, run=5, status=0), line(2, 70, run=40, status=4)]
    w = from_text(text(*rows), "x")
    assert w.columns["job"].tolist() == [1, 2, 3] and w.truth["runtime"].tolist() == [90, 70, 5]
    assert w.columns["status"].tolist() == [1, 0, 0] and w.jobs["submit"].tolist() == [0, 10, 15]
    assert w.dropped == {"parts of a job that is there whole (status 2 to 4)": 3}
    assert w.notes == {"put together from their parts (status 2 to 4)": 1}
    assert len(rows) == len(w) + sum(w.dropped.values())


def test_unsorted_submits_are_sorted_stably_and_noted():
    w = from_text(text(line(1, 30), line(2, 10), line(3, 10)), "x")
    assert w.columns["job"].tolist() == [2, 3, 1] and w.notes


def test_an_overridden_machine_is_written_down():
    from dataclasses import replace

    from jobwise.cluster import pool

    w = from_text(text(line(requested=4)), "x")
    for processors in (4, 7, 8):
        assert from_text(swf_text(replace(w, cluster=pool(processors))), "y").cluster.processors == processors
    assert from_text(text(line(requested="2.5"), header=""), "x").cluster.processors == 3


def test_absolute_times_count_from_the_first_job():
    w = from_text(text(line(1, 1_600_000_000)), "x")
    assert w.offset == 0 and w.origin == 1_600_000_000


@pytest.mark.parametrize("ending", ["swf", "swf.gz", "swf.xz"])
def test_written_and_read_again_is_the_same(tmp_path, ending):
    w = from_text(text(line(1, 50.5), line(2, 60, run=7.25)), "x")
    path = tmp_path / f"again.{ending}"
    write_swf(w, path)
    again = read_swf(path)
    assert again.jobs.tobytes() == w.jobs.tobytes()
    assert all(np.array_equal(again.columns[c], w.columns[c]) for c in COLUMNS)
    assert again.header == w.header and directive(again.header, "MaxProcs") == "8"


def test_real_logs_are_written_back_unchanged(log):
    for name in ("HPC2N", "lublin"):
        w = log(name)
        again = from_text(swf_text(w), "again.swf")
        assert again.jobs.tobytes() == w.jobs.tobytes() and again.header == w.header


BAD = {
    "17 columns": ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", "bad.swf:1: 17 fields; a job has 18"),
    "word": (text(line(run="ten")), "bad.swf:4: field 'run' is 'ten'; a number"),
    "nan": (text(line(submit="nan")), "bad.swf:4: field 'submit' is nan; that is no sensible number"),
    "infinity": (text(line(walltime="inf")), "field 'walltime' is inf"),
    "huge": (text(line(run="1e300")), "field 'run' is 1e300"),
    "empty": ("", "is empty"),
    "blank lines": ("\n\n  \n", "is empty"),
    "header only": (HEADER, "has a header but no jobs"),
    "all dropped": (text(line(run=0)), "none of 1 rows is a job that ran (1 run time <= 0)"),
    "no sizes": (text(line(allocated=-1, requested=-1), header=""), "the machine is unknown"),
    "prose": ("To be, or not to be\n", "bad.swf:1: 6 fields"),
    "html": ("<html><body>404</body></html>\n", "bad.swf:1: 1 fields"),
    "comma": (text(line().replace(" ", ",")), "1 fields"),
    "huge machine": (text(line(), header="; MaxProcs: 99999999999\n"), "beyond what can be simulated"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_content_is_one_clear_line(tmp_path, what):
    content, message = BAD[what]
    path = tmp_path / "bad.swf"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read_swf(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_bad_files(tmp_path):
    whole = gzip.compress(text(line()).encode())
    for name, content, message in [
        ("cut.swf.gz", whole[:-9], "damaged compressed file"),
        ("flip.swf.gz", whole[:20] + b"\xff\x00" + whole[22:], "damaged compressed file"),
        ("cut.swf.xz", lzma.compress(text(line()).encode())[:-9], "damaged compressed file"),
        ("binary.swf", bytes(range(256)) * 10, "looks like a binary file"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_swf(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_swf(tmp_path / "none.swf")
    with pytest.raises(InputError, match="is a folder"):
        read_swf(tmp_path)


def test_latin_1_headers_are_read(tmp_path):
    path = tmp_path / "l.swf"
    path.write_bytes(b"; Installation: Universit\xe4t\n" + line().encode() + b"\r\n")
    assert "Universität" in read_swf(path).header[0]


word = st.one_of(
    st.integers(-5, 10**7).map(str),
    st.floats().map(str),
    st.sampled_from(["-1", "1e400", "0x10", "--", "1_000", "٣", "", "\t", ";", "\x0b", "1e5", "+7", ".5", "nan"]),
    st.text(max_size=6),
)
row = st.lists(word, min_size=0, max_size=20).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(row, st.just(line()), st.text(max_size=30)), max_size=8).map("\n".join))
def test_any_text_is_a_workload_or_one_line(content):
    try:
        w = from_text(content, "fuzz.swf")
    except InputError as error:
        assert "\n" not in str(error) and "fuzz.swf" in str(error)
    else:
        assert len(w) and np.isfinite(w.jobs["submit"]).all() and (w.jobs["request"] >= 1).all()


names = st.lists(
    st.sampled_from("JobIDRaw JobID User State Submit Eligible Start End ElapsedRaw TimelimitRaw NCPUS ReqCPUS Extra".split()),
    max_size=12,
).map("|".join)
cells = st.lists(
    st.one_of(
        word, st.sampled_from(["2026-11-21T01:19:51", "Unknown", "COMPLETED", "12.batch", "3_[4-9]", "5-00:00:00", "UNLIMITED"])
    ),
    max_size=14,
).map("|".join)


@settings(max_examples=300, deadline=None)
@given(names, st.lists(cells, max_size=5).map("\n".join))
def test_any_sacct_text_is_a_workload_or_one_line(header, content):
    try:
        w = sacct_from_text(header + "\n" + content, "fuzz.sacct")
    except InputError as error:
        assert "\n" not in str(error) and "fuzz.sacct" in str(error)
    else:
        assert len(w) and np.isfinite(w.jobs["submit"]).all()


def test_the_machine_is_maxprocs_before_maxnodes():
    """Nodes of several processors: jobs ask for processors."""
    for header, size in (
        ("; MaxNodes: 4\n; MaxProcs: 16\n", 16),
        ("; MaxNodes: 8\n", 8),
        ("; MaxProcs: -1\n; MaxNodes: 8\n", 8),
    ):
        w = from_text(header + line(1, 0, run=10, walltime=20, requested=3) + "\n", "x")
        assert w.cluster.processors == size, header


def test_a_part_of_a_processor_is_a_processor():
    rows = "\n".join(line(i, i, run=10, walltime=20, requested=n) for i, n in ((1, 2.5), (2, 3), (3, 0.25)))
    assert from_text("; MaxProcs: 8\n" + rows + "\n", "x").jobs["request"][:, 0].tolist() == [3, 3, 1]


def test_an_odd_row_is_left_out_counted_and_named():
    w = from_text(text(line(), line() + " 7", line(run="ten"), line(2, 60)), "odd.swf")
    ((reason, count),) = w.dropped.items()
    assert len(w) == count == 2 and reason.startswith("that cannot be read (the first: odd.swf:5: 19 fields; a job has 18")


def test_columns_behind_the_18_are_kept_by_name():
    """Numbers as numbers, words as words; a descriptor of nodes x cores is the size, as in Frontier's logs."""
    rows = [line(k, 10 * k, allocated=64 * k, requested=64 * k) + f" {4 * k} -1 frontier:excl:{k}x64" for k in (2, 1)]
    w = from_text(text(*rows, header="; MaxNodes: 8\n"), "x", fields="used_gpus,soft,descriptor")
    assert w.columns["used_gpus"].tolist() == [4, 8] and w.columns["descriptor"].tolist()[0] == "frontier:excl:1x64"
    assert w.jobs["request"][:, 0].tolist() == [1, 2] and w.cluster.processors == 8
    assert any("have the nodes of their descriptor" in note for note in w.notes)
    assert set(from_text(text(rows[0], header=""), "x").columns) == {*COLUMNS, "field19", "field20", "field21"}


def test_blocks_of_any_size_are_the_same_log():
    whole = text(*(line(k, 10 * k) for k in range(1, 60)), line() + " 7", line(60, 600)).encode()
    w = from_text(whole.decode(), "x")
    for size in (1, 100, 1000):
        again = from_blocks(blocks(io.BytesIO(whole), "x", size), "x")
        assert again.jobs.tobytes() == w.jobs.tobytes() and again.dropped == w.dropped and again.header == w.header


def test_a_machine_of_nodes_whose_jobs_count_processors():
    """MaxNodes stands alone and jobs are larger: sizes are processors, and the machine a multiple of its nodes."""
    w = from_text(text(line(1, 0, allocated=8, requested=8), header="; MaxNodes: 3\n"), "x")
    assert w.cluster.processors == 9 and any("guessed" in note for note in w.notes)
    assert from_text(text(line(), header="; MaxProcs: 1,024\n"), "x").cluster.processors == 1024


def test_more_columns_are_written_and_read_again(tmp_path, capsys):
    rows = [line(k, 10 * k) + f" {4 * k} a{k}" for k in (1, 2)]
    (tmp_path / "a.swf").write_text(text(*rows, header=HEADER + "; Fields: gpus_used kind\n"))
    a, out = str(tmp_path / "a.swf"), tmp_path / "b.swf"
    assert run(["trace", "convert", a, str(out), "--extended"]) == 0
    w = open_log(str(out))
    assert w.columns["gpus_used"].tolist() == [4, 8] and w.columns["kind"].tolist() == ["a1", "a2"]
    assert out.read_text().count("; Fields: gpus_used kind") == 1
    assert run(["trace", "convert", a, str(tmp_path / "c.swf")]) == 0
    assert all(len(x.split()) == 18 for x in (tmp_path / "c.swf").read_text().splitlines() if x[0] != ";")
    assert run(["trace", "convert", a, str(tmp_path / "c.parquet"), "--extended"]) == 2
    assert "--extended is for SWF" in capsys.readouterr().err
