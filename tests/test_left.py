"""What left is refused in one line that says what to use instead: policy files, names, options, systems."""

from pathlib import Path

import pytest

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.policies import left
from jobwise.policies.names import load

STORED = Path(__file__).parent / "data" / "version0.1"  # files as version 0.1 wrote them
FILES = {"flow-net": "flow-work+reserve0.1x60s"}


@pytest.mark.parametrize("name", FILES)
def test_a_stored_file_is_refused_with_what_to_use_instead(name):
    file = STORED / f"{name}.safetensors"
    with pytest.raises(InputError) as error:
        load(file)
    text = str(error.value)
    assert text.startswith(f"{file}: ") and FILES[name] in text and "docs/tried.md" in text and "\n" not in text


@pytest.mark.parametrize("system", ["flow-net"])
def test_a_system_that_left_is_no_typing_error(system, tmp_path, capsys):
    assert run(["train", system, "log.swf", "--out", str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert "left jobwise" in said and "did you mean" not in said


def test_every_row_names_what_it_is_about():
    for row in left.LEFT:
        assert any((row.files, row.options, row.policies, row.systems)) and "left jobwise" in row.what and row.instead
