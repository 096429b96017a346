"""Help of every command: at most 50 lines of 80 columns, no types, options by group, examples; where to begin."""

import pytest

from jobwise.cli import run
from jobwise.cli.help import first, in_columns, parted
from jobwise.cli.main import COMMANDS, GROUPS, SECTIONS, app

NAMES = [[n] for n in (*COMMANDS, "reproduce")] + [[g, n] for g, (_, own) in GROUPS.items() for n in own]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_help_of_a_command_fits_on_two_screens_and_has_examples(name, capsys):
    assert run([*name, "--help"]) == 0
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert len(lines) <= 50 and max(map(len, lines)) <= 80
    assert lines[0].startswith(f"Usage: jobwise {' '.join(name)}") and "Examples:" in lines
    examples = lines[lines.index("Examples:") + 1 :]
    assert all(x.startswith(f"  jobwise {' '.join(name)}") for x in examples) and 1 <= len(examples) <= 2
    text = "\n".join(lines)
    assert not any(kind in text for kind in ("<int", "<str", "<bool", "<float", "INTEGER", "range]"))


def test_the_command_alone_says_where_to_begin_and_groups_its_commands(capsys):
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert len(lines) <= 50 and max(map(len, lines)) <= 80 and "Begin here:" in lines
    assert all(f"{title}:" in lines for title in SECTIONS)
    listed = {n for names in SECTIONS.values() for n in names}
    assert {*COMMANDS, *GROUPS, "reproduce"} == listed and set(app.commands) >= listed
    assert run(["slurm", "--help"]) == 0
    out = capsys.readouterr().out
    assert "From a folder of Slurm's outputs:" in out and all(f"\n  {n} " in out for n in GROUPS["slurm"][1])


def test_options_stand_by_group_with_their_defaults(capsys):
    assert run(["compare", "--help"]) == 0
    out = capsys.readouterr().out
    replay = out[out.index("\nReplay:\n") : out.index("\nWorkers:\n")]
    assert "--end-at-limit" in replay and "--seed N" in replay and "[default: 0]" in replay
    assert "--executor" in out[out.index("\nWorkers:\n") :] and "-p, --policy POLICY" in out


def test_a_range_is_named_where_it_is_left(capsys):
    assert run(["compare", "log.swf", "--replicas", "-1"]) == 2
    assert "greater than or equal to 0" in capsys.readouterr().err


def test_parts_of_a_docstring():
    text = "Do a thing. And another.\n\n    More of it.\n\n    Examples:\n        jobwise a\n        jobwise b\n    "
    assert parted(text) == ("Do a thing. And another.\n\nMore of it.", ["jobwise a", "jobwise b"])
    assert first(text) == "Do a thing." and first("Why does it wait? Because.") == "Why does it wait?"
    assert in_columns([("-x N", "a b"), ("--a-very-long-name-of-an-option", "c")], 80) == [
        "  -x N" + " " * 18 + "a b",
        "  --a-very-long-name-of-an-option",
        " " * 24 + "c",
    ]


def test_a_folder_where_none_is_an_argument_names_the_option(capsys):
    assert run(["slurm", "advise", "site"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("a folder of outputs is named by --folder")


def test_a_command_alone_is_its_help_on_standard_output(capsys):
    for words in ([], ["slurm"]):
        assert run(words) == 2
        out, err = capsys.readouterr()
        assert out.startswith("Usage: jobwise") and out.count("\n") > 10 and err == ""
