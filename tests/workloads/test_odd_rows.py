"""Odd rows of logs of other systems: none is fatal, each is left out and counted, and nothing is silently another number."""

import gzip
import json
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_systems import condor, flux, jobs, kueue, lsf, oar, pbs, sacct_json, sge

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.simulate import simulate
from jobwise.workloads.source import open_log

C = {"columns": "submit=s,start=b,end=e,processors=p,user=u"}
HEAD = "s,b,e,p,u\n"
T = 1_700_000_000


def rows(count=5):
    return [f"{T + 10 * k},{T + 10 * k + 5},{T + 10 * k + 65},4,u{k}" for k in range(count)]


def table(tmp_path, lines, form=None, head=HEAD, encoding="utf-8"):
    (tmp_path / "t.csv").write_bytes((head + "\n".join(lines) + "\n").encode(encoding))
    return open_log(str(tmp_path / "t.csv"), form=form or C)


ODD = {  # a row that is left out, of a table of five others
    "no day": "2026-02-31 10:00:00,2026-03-03 10:00:00,2026-03-03 11:00:00,4,x",
    "no offset": "2026-02-01 10:00:00+99:99,2026-02-01 10:00:00Z,2026-02-01 11:00:00Z,4,x",
    "infinite": f"1e400,{T},{T + 60},4,x",
    "far away": f"{T * 1000},{T * 1000},{T * 1000 + 60},4,x",
    "too many": f"{T},{T},{T + 60},1e300,x",
    "a word": f"{T},{T},later,4,x",
    "short": f"{T},{T}",
    "no size": f"{T},{T},{T + 60},0,x",
    "no time": f"{T},{T},{T},4,x",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_row_of_a_table_is_counted(name, tmp_path):
    w = table(tmp_path, [*rows()[:2], ODD[name], *rows()[2:]])
    assert len(w) == 5 and sum(w.dropped.values()) == 1
    assert not np.isnan(simulate(w, "fcfs+easy").jobs["start"]).any()


def test_a_start_before_its_submit_is_said(tmp_path):
    w = table(tmp_path, [*rows(), f"{T},{T - 100},{T + 70},4,x"])
    assert any("started before their submit" in n for n in w.notes) and w.columns["wait"].min() == 0
    assert sorted(w.truth["runtime"])[-1] == 170


def test_a_stray_quote_loses_no_row_in_silence(tmp_path):
    """Rows behind a quote that nothing closes belong to its text: they are counted."""
    lines = rows(100)
    lines[9] = lines[9].replace("u9", '"u9')
    w = table(tmp_path, lines)
    assert len(w) + sum(w.dropped.values()) == 100 and any("within quotes" in k for k in w.dropped)
    w = table(tmp_path, [f'{rows(1)[0][:-2]}"two\nlines"', *rows()[1:]])
    assert len(w) == 5 and sum(w.dropped.values()) == 1  # the second line of a text


def test_latin_1_and_names_in_quotes(tmp_path):
    w = table(tmp_path, [*rows(), f"{T},{T},{T + 60},4,J\xf6rg"], encoding="latin-1")
    assert "J\xf6rg" in w.names["user"].values() and len(w) == 6
    w = table(tmp_path, [x + ",1" for x in rows()], head='s,b,e,p,u,"note, free"\n')
    assert len(w) == 5 and w.dropped == {}


def test_one_line_in_latin_1_leaves_the_others_as_they_are(tmp_path):
    """Names in UTF-8 keep their letters beside it, whatever block they are in."""
    names = [x._replace(user="J\xf6rg") for x in jobs(0)]
    lines = [pbs(x).encode() for x in names[:-1]] + [pbs(names[-1]).encode("latin-1")]
    (tmp_path / "log").write_bytes(b"\n".join(lines) + b"\n")
    assert set(open_log(str(tmp_path / "log")).names["user"].values()) == {"J\xf6rg"}


SAID = {  # words that say something which a log has no use for
    ("simulate", "t.csv", "--fields", "a,b"): "is a table in columns that are not known",
    ("trace", "info", "x.swf", "--cluster", "a"): "--cluster says nothing of a log of SWF; leave it out",
    ("trace", "info", "cush:7", "--cluster", "a"): "cush:7: --cluster says something of a file of jobs, and this is none",
    ("trace", "info", "log", "--fields", "a b"): "--fields says nothing of a log of PBS; leave it out",
    ("simulate", "t.parquet", "--stream", "--columns", "submit=s"): "--columns goes without --stream",
}


@pytest.mark.parametrize("words", SAID)
def test_no_option_is_read_and_ignored(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(HEAD + "\n".join(rows()) + "\n")
    (tmp_path / "x.swf").write_text("; MaxProcs: 4\n1 1 0 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n")
    (tmp_path / "log").write_text("\n".join(map(pbs, jobs(0))) + "\n")
    assert run([*words] if "-p" in words or words[0] != "simulate" else [*words, "-p", "fcfs"]) == 2
    assert SAID[words] in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_cut_file_is_one_line(pack, tmp_path, capsys):
    data = pack((HEAD + "\n".join(rows(5000))).encode())
    (tmp_path / "t.csv.gz").write_bytes(data[: len(data) // 2])
    assert run(["trace", "info", str(tmp_path / "t.csv.gz"), "--columns", C["columns"]]) == 2
    error = capsys.readouterr().err
    assert "damaged compressed file" in error and error.count("\n") == 1


def test_one_absurd_size_of_any_format_is_left_out(tmp_path):
    every = jobs(0)
    texts = {"p": [pbs(x) for x in every] + [pbs(every[0]._replace(id=9)).replace("n0/0*1", "n0/0*99999999999999999999")]}
    texts["s.swf"] = [f"{k} {k} 0 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1" for k in range(1, 6)]
    texts["s.swf"] += [
        "6 6 0 10 1000000000000 -1 -1 -1 20 -1 1 1 1 -1 1 -1 -1 -1",
        "7 1e15 0 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1",
    ]
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        w = open_log(str(tmp_path / name))
        assert len(w) + sum(w.dropped.values()) == len(lines) and len(w) == len(lines) - (1 if name == "p" else 2)
        assert not np.isnan(simulate(w, "fcfs+easy").jobs["start"]).any()


NODES = {  # of Torque: (cores, GPUs)
    "exec_host=n1/0-15+n2/0+n3/0 Resource_List.nodes=n1:ppn=16+2:ppn=1 Resource_List.nodect=3": (18, 0),
    "Resource_List.nodes=1:ppn=4+2:ppn=8 Resource_List.nodect=3": (20, 0),
    "Resource_List.nodes=1:ppn=8:gpus=1+1:ppn=8:gpus=2 Resource_List.nodect=2": (16, 3),
    "Resource_List.nodes=n1:ppn=16:gpus=2": (16, 2),
}


@pytest.mark.parametrize("asked", NODES)
def test_parts_of_torques_nodes(asked, tmp_path):
    when = f"ctime={T} etime={T} start={T} end={T + 60} Resource_List.walltime=1:00:00:00"
    (tmp_path / "log").write_text(f"03/02/2026 08:00:10;E;71.head;user=a {when} {asked}\n")
    w = open_log(str(tmp_path / "log"))
    assert (w.jobs["request"][0, 0], w.columns.get("gpus", np.zeros(1))[0]) == NODES[asked]
    assert w.jobs["walltime"].tolist() == [86_400]  # days:hours:minutes:seconds


def test_attributes_stay_in_their_ad(tmp_path):
    ads = []
    for x in jobs(0)[:3]:
        ad = condor(x) | {"Owner": f"o{x.id}"}
        ad.pop("AllowedJobDuration")
        text = "\n".join(f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {str(v).lower()}" for k, v in ad.items())
        ads.append(('AcctGroup = "physics"\nAllowedJobDuration = 7200\n' if x.id == 101 else "") + text)
    (tmp_path / "h").write_text("\n\n".join(ads) + "\n")
    w = open_log(str(tmp_path / "h"))
    group = [w.names["group"].get(g, "") for g in w.jobs["group"]]
    second = [k for k, u in enumerate(w.jobs["user"]) if w.names["user"][u] == "o101"][0]
    assert group[second] == "physics" and group.count("physics") == 1 and w.jobs["walltime"][second] == 7200


def test_clusters_of_slurms_json(tmp_path):
    every = jobs(0)
    document = {"jobs": [sacct_json(x) | {"cluster": "AB"[k % 2]} for k, x in enumerate(every)]}
    (tmp_path / "s.json").write_text(json.dumps(document))
    w = open_log(str(tmp_path / "s.json"), form={"cluster": "A"})
    assert len(w) == 20 and w.dropped == {"of another cluster than A": 20}
    (tmp_path / "l1").write_text("\n".join(map(lsf, every)) + "\n")
    with pytest.raises(InputError, match="--cluster says nothing of a log of LSF"):
        open_log(str(tmp_path / "l1"), form={"cluster": "l"})


LINES = {"flux": flux, "condor": condor}


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_json_that_is_cut_is_counted(name, tmp_path):
    """Also with pipes in a text, and with an end of line that is none."""
    make = LINES[name]
    lines = [json.dumps(make(x) | {"Requirements": "a || b || c || d\u2028e"}, ensure_ascii=False) for x in jobs(0)]
    (tmp_path / "x").write_text("\n".join([*lines, lines[0][:40]]))
    w = open_log(str(tmp_path / "x"))
    assert len(w) == len(lines) and w.dropped == {"that are no objects of JSON, or are cut": 1}


def test_elements_that_are_no_objects_are_counted(tmp_path):
    every = jobs(0)
    (tmp_path / "x.json").write_text(json.dumps([None, 5, [1, 2], *map(condor, every)]))
    assert open_log(str(tmp_path / "x.json")).dropped == {"that are no objects of JSON, or are cut": 3}
    (tmp_path / "o.json").write_text(json.dumps({"1": None} | {str(x.id): oar(x) for x in every}))
    w = open_log(str(tmp_path / "o.json"))
    assert len(w) == len(every) and sum(w.dropped.values()) == 1


WRONG = {  # one object of which nothing can be made, among others
    "oar": (oar, {"assigned_resources": 5}),
    "kueue": (kueue, {"spec": {"podSets": {"a": 1}}}),
    "kueue count": (kueue, {"spec": {"podSets": [{"count": "x", "template": {"spec": {"containers": [{"resources": {}}]}}}]}}),
    "kueue metadata": (kueue, {"metadata": "x"}),
    "kueue status": (kueue, {"status": [1]}),
    "slurm tres": (sacct_json, {"tres": []}),
    "slurm null": (sacct_json, {"tres": None}),
    "flux": (flux, {"t_run": "soon"}),
    "condor": (condor, {"QDate": {"a": 1}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_wrong_object_is_no_traceback(name, tmp_path):
    make, wrong = WRONG[name]
    objects = [make(x) for x in jobs(0)]
    objects[3] = objects[3] | wrong
    (tmp_path / "x.json").write_text(json.dumps({"items": objects} if "kueue" in name else {"jobs": objects}))
    w = open_log(str(tmp_path / "x.json"))
    assert len(objects) - 1 <= len(w) and len(w) + sum(w.dropped.values()) == len(objects)


def test_odd_fields_of_text_logs(tmp_path):
    every = jobs(0)
    odd = {
        "sge": (sge, [sge(every[0]).replace(f":{every[0].start}:", ":abc:", 1)]),
        "sge h_rt": (sge, []),
        "pbs": (pbs, [pbs(every[0]._replace(id=7)).replace("n0/0*1", "n0/0*4x")]),
        "lsf": (lsf, [lsf(every[0]).replace('"sim ""x"""', '"' + "y" * 140_000 + '"')]),
    }
    for name, (make, more) in odd.items():
        lines = [*map(make, every), *more]
        if name == "sge h_rt":
            lines = [x.replace("h_rt=", "h_rt=00:00:") for x in lines]  # colons, as some have them
        (tmp_path / "x").write_text("\n".join(lines) + "\n")
        w = open_log(str(tmp_path / "x"))
        assert len(w) == len(every) and sum(w.dropped.values()) == len(more), name


def test_pipes_in_a_command_are_not_sacct(tmp_path):
    every = jobs(0)
    for name, make, piped in (
        ("lsf", lsf, lambda t: t.replace("sleep 10", "cat a | b | c | d | e | f")),
        ("pbs", pbs, lambda t: t.replace("jobname=a", 'jobname="a||b||c|d"')),
    ):
        (tmp_path / name).write_text("\n".join(piped(make(x)) for x in every) + "\n")
        assert len(open_log(str(tmp_path / name))) == len(every), name


def test_odd_lines_of_swf(tmp_path):
    good = [f"{k} {k} 0 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1" for k in range(1, 5)]
    for text, count, left in (
        ("\ufeff; MaxProcs: 128\n" + "\n".join(good), 4, 0),
        ("\r".join(["; MaxProcs: 128", *good]), 4, 0),
        ("; MaxProcs: 128\n" + good[0] + " 9\n" + "\n".join(good[1:]), 3, 1),
        ("; MaxProcs: 128\n" + "\n".join(good).replace("3 3 0", "3 1_000 0"), 3, 1),
    ):
        (tmp_path / "x.swf").write_bytes(text.encode())
        w = open_log(str(tmp_path / "x.swf"))
        assert (len(w), sum(w.dropped.values()), w.cluster.processors) == (count, left, 128)


MAPS = {
    "machine = '512'": "machine = 512: a whole number is expected",
    "machine = -3": "machine is -3",
    "units = 'x'": "units = x: a table is expected",
    "fields = 5": "fields = 5: a list of texts is expected",
    "only = []": "only = []: a table is expected",
    "reading = [1]": "reading = [1]: a text is expected",
    "[units]\nsubmit = 5": "units = {'submit': 5}: a table is expected",
    "[only]\nmissing = 'x'": "there is no column 'missing', which [only] names",
    "[units]\np = '1.2.3'": "p in '1.2.3'",
}


@pytest.mark.parametrize("text", MAPS)
def test_a_wrong_map_is_one_line(text, tmp_path, capsys):
    columns = "[columns]\nsubmit = 's'\nstart = 'b'\nend = 'e'\nprocessors = 'p'\n"
    order = columns + text if text.startswith("[") else text + "\n" + columns
    (tmp_path / "m.toml").write_text(order.replace("p = '1.2.3'", "processors = '1.2.3'"))
    (tmp_path / "t.csv").write_text(HEAD + "\n".join(rows()) + "\n")
    assert run(["trace", "info", str(tmp_path / "t.csv"), "--columns", str(tmp_path / "m.toml")]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert MAPS[text].replace("p in '1.2.3'", "processors in '1.2.3'") in error and "Traceback" not in error


def test_other_oddities_of_maps(tmp_path):
    w = table(tmp_path, [f"{x},{k % 2}" for k, x in enumerate(rows())], head=HEAD.strip() + ",kind\n", form=C)
    (tmp_path / "m.toml").write_text("[columns]\nsubmit='s'\nstart='b'\nend='e'\nprocessors='p'\n[only]\nkind = 1\n")
    w = open_log(str(tmp_path / "t.csv"), form={"columns": str(tmp_path / "m.toml")})
    assert len(w) == 2 and w.dropped == {"of another kind than 1": 3}
    with pytest.raises(InputError, match="requested has a meaning of its own in SWF"):
        open_log(str(tmp_path / "t.csv"), form={"columns": C["columns"] + ",requested=kind"})


def test_columns_of_parquet_of_other_types(tmp_path):
    """Durations with parts of a µs, binary texts in Latin-1, fractions of seconds."""
    spans = pa.array([1_500_000_001, 60_000_000_000], pa.duration("ns"))
    columns = {"s": [0, 10], "r": spans, "p": [1, 2], "u": pa.array([b"J\xf6rg", b"ann"], pa.binary())}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    w = open_log(str(tmp_path / "t.parquet"), form={"columns": "submit=s,run=r,processors=p,user=u"})
    assert w.truth["runtime"].tolist() == [1.5, 60.0] and set(w.names["user"].values()) == {"J\xf6rg", "ann"}
