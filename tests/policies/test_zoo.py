"""The zoo: every card has a policy that schedules, what a card says is whole, and wrong names are one line.

Modules: cli/zoo.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from jobwise.cli import run
from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.policies.names import described, resolve
from jobwise.policies.zoo import FOLDER, cards, file_of
from jobwise.simulate import simulate
from jobwise.workloads.lublin import lublin

NAMES = sorted(cards())


def test_cards_and_files_are_the_same_ones():
    assert NAMES and {p.stem for p in FOLDER.glob("*.safetensors")} == {*NAMES}
    assert {card.world for card in cards().values()} == {"window", "nodes", "slots", "gpus"}
    assert all(all(card) for card in cards().values())
    assert {f"zoo:{n}" for n in NAMES} <= {*described()["zoo"]}
    assert sum(p.stat().st_size for p in FOLDER.iterdir()) < 1.5e6


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_of_the_zoo_schedules(name, tmp_path):
    card, policy = cards()[name], resolve(f"zoo:{name}")
    assert policy.name == f"zoo:{name}"
    if card.world == "window":
        w = lublin(300, 64, seed=4, load=0.9, estimates="users", users=10)
        if card.system == "sem":  # its network is made for one machine
            with pytest.raises(InputError, match="made for 4,360 processors; this machine has 64"):
                simulate(w, f"zoo:{name}")
            w = replace(w, cluster=pool(4360))
        r = simulate(w, f"zoo:{name}")
        assert not np.isnan(r.jobs["start"]).any() and r.policy == f"zoo:{name}"
        assert simulate(w, f"zoo:{name}+guard24h").summary()["max_wait"] <= r.summary()["max_wait"] + 86400
    else:
        assert run(["watch", f"zoo:{name}", "--rows", "4", "--out", str(tmp_path / "film.gif")]) == 0


def test_what_the_command_says(capsys):
    assert run(["zoo"]) == 0
    out = capsys.readouterr().out
    assert all(f"zoo:{n}" in out for n in NAMES)
    assert run(["zoo", "zoo:" + NAMES[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {NAMES[0]: cards()[NAMES[0]]._asdict()}
    assert run(["zoo", NAMES[0]]) == 0 and "licence" in capsys.readouterr().out
    assert run(["zoo", "sdsc-sp3"]) == 2 and "did you mean sdsc-sp2" in capsys.readouterr().err


def test_wrong_names_and_a_missing_file(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="did you mean sdsc-sp2"):
        resolve("zoo:sdsc-sp")
    with pytest.raises(InputError, match="did you mean easy"):
        resolve("zoo:sdsc-sp2+easi")
    monkeypatch.setattr("jobwise.policies.zoo.FOLDER", tmp_path)
    with pytest.raises(InputError, match="is missing"):
        file_of(NAMES[0])
