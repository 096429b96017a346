"""What left is refused in one line that says what to use instead: policy files, names, options, systems."""

import numpy as np
import pytest
from conftest import TESTS

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.policies import files, left
from jobwise.policies.names import load, resolve
from jobwise.sim.memory.loglinear import FEATURES

STORED = TESTS / "data" / "version0.1"  # files as version 0.1 wrote them
FILES = {"flow-net": "flow-work+reserve0.1x60s", "smith-forecast": "smith-aged"}
NAMES = {
    "smith-forecast+easy": "smith-aged",
    "smith-forecast-aged+easy+promise1.2x": "smith-aged",
    "jobwise:runs/trees": "jobwise",
    "jobwise+refit": "jobwise",
    "saf+easy+refit2000": "smith-aged",
    "jobwise-unbounded": "one rule",
    "gated:saf+easy,smith+easy,1.2x": "one rule",
    "saf+easy+guard0.8x": "promise1.2x",
    "saf+easy+promise1.2x+by-history": "leave the word out",
}


@pytest.mark.parametrize("name", FILES)
def test_a_stored_file_is_refused_with_what_to_use_instead(name):
    file = STORED / f"{name}.safetensors"
    with pytest.raises(InputError) as error:
        load(file)
    text = str(error.value)
    assert text.startswith(f"{file}: ") and FILES[name] in text and "docs/tried.md" in text and "\n" not in text


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_refused_with_what_to_use_instead(name):
    with pytest.raises(InputError) as error:
        resolve(name)
    text = str(error.value)
    assert NAMES[name] in text and "docs/tried.md" in text and "\n" not in text and "did you mean" not in text


def test_weights_that_were_searched_under_a_relative_guard_are_refused(tmp_path):
    """A policy file of `train search --max-wait`; the same without the guard opens."""
    meta = {"kind": "index", "features": list(FEATURES), "label": "mine", "about": {}}
    for times, opens in ((None, True), (0.8, False)):
        files.write(tmp_path / "policy.safetensors", meta | {"times": times}, {"weights": np.ones(len(FEATURES))})
        if opens:
            assert load(tmp_path).name == f"{tmp_path.name}+easy"
        else:
            with pytest.raises(InputError, match=r"promise1\.2x"):
                load(tmp_path)


@pytest.mark.parametrize("system", ["flow-net", "smith-forecast"])
def test_a_system_that_left_is_no_typing_error(system, tmp_path, capsys):
    assert run(["train", system, "log.swf", "--out", str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert "left jobwise" in said and "did you mean" not in said


def test_every_row_names_what_it_is_about():
    for row in left.LEFT:
        assert any((row.files, row.options, row.policies, row.systems)) and "left jobwise" in row.what and row.instead
