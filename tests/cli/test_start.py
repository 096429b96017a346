"""`jobwise start`: every answer has three commands that the command line knows; in a pipe it prints the choices.

Modules: cli/start.py.
"""

import shlex

import pytest

from jobwise.cli import run
from jobwise.cli.main import COMMANDS, GROUPS
from jobwise.cli.start import COMMANDS as WAYS
from jobwise.cli.start import HAVE, KNOW, lying_here, ways
from jobwise.errors import InputError

PAIRS = [(have, know) for have in WAYS for know in WAYS[have]]


def test_every_pair_of_answers_has_one_way():
    assert {have: set(of) for have, of in WAYS.items()} == dict.fromkeys(HAVE, set(KNOW))
    for have, know in PAIRS:
        commands = ways(have, know, "mine")
        assert len(set(commands)) == 3
        assert have in ("slurm", "nothing") or any(text.endswith("mine") or " mine " in text for text in commands)


@pytest.mark.parametrize("text", sorted({text for pair in PAIRS for text in ways(*pair, "x")}))
def test_every_command_is_known_with_its_options(text, capsys):
    """The help of each command has the options that it is printed with."""
    words = shlex.split(text)[1:]
    name = words[:2] if words[0] in GROUPS else words[:1]
    assert words[0] in GROUPS and words[1] in GROUPS[words[0]][1] or words[0] in COMMANDS
    assert run([*name, "--help"]) == 0
    said = capsys.readouterr().out
    for word in words:
        if word.startswith("-") and word != "--help":
            assert word in said, (text, word)


def test_file_names_stand_in_the_commands(tmp_path, monkeypatch, capsys):
    assert ways("log", "compare", "my log.swf")[0] == "jobwise trace info 'my log.swf'"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.swf.gz").write_text("")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sacct.txt").write_text("")
    assert lying_here("log", tmp_path) == ["b.swf.gz"] and lying_here("site", tmp_path) == ["site"]
    assert run(["start", "--have", "log", "--know", "energy"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "jobwise simulate b.swf.gz --power table.toml" and len(out.splitlines()) == 3
    assert run(["start", "--have", "site", "--know", "settings", "--file", "elsewhere"]) == 0
    assert "jobwise slurm fidelity elsewhere" in capsys.readouterr().out


def test_in_a_pipe_the_choices_are_printed(capsys):
    assert run(["start"]) == 0
    out = capsys.readouterr().out
    assert "--have" in out and all(f"{name}: " in out for name in (*HAVE, *KNOW))


def test_other_answers_are_one_line(capsys):
    with pytest.raises(InputError, match="what you have"):
        ways("cloud", "compare", "")
    assert run(["start", "--have", "log", "--know", "weather"]) == 2
    assert "what you want to know" in capsys.readouterr().err
