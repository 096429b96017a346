"""What a comparison says first, and what it may claim; how tables and progress read; `repr` of results.

Modules: compare/against.py.
"""

import json
import re
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli import run
from jobwise.compare.against import against, verdicts
from jobwise.compare.answer import answer, other_way
from jobwise.compare.intervals import Effect, claims, effect, totals
from jobwise.compare.procedure import compare


@pytest.fixture(scope="module")
def comparison():
    w = jw.lublin(3000, 64, seed=2, load=0.9, estimates="users", users=12)
    return compare(w, ["fcfs+easy", "saf+easy", "saf+easy+guard24h"], replicas=2, window_jobs=100)


def altered(c, factor, waits=None, blocks=None):
    """The comparison as if policies had other slowdowns (times `factor` [P] those of the first) and longest waits."""
    x = c.windows["bounded_slowdown"]
    noise = 1 + 0.01 * np.sin(np.arange(x[0].size).reshape(x[0].shape))
    slow = np.stack([x[0] * f * (noise if p else 1.0) for p, f in enumerate(factor)])
    whole = np.stack([c.blocks[0] * f for f in factor])
    both = list(zip(waits or np.ones(len(factor)), factor, strict=True))
    replays = [
        [dict(s, max_wait=s["max_wait"] * m, bounded_slowdown=s["bounded_slowdown"] * f) for s in c.replays[0]] for m, f in both
    ]
    logged = [dict(c.logged[0], max_wait=c.logged[0]["max_wait"] * m) for m in waits or np.ones(len(factor))]
    return replace(c, windows=c.windows | {"bounded_slowdown": slow}, blocks=whole, replays=replays, logged=logged)


def test_the_answer_is_three_sentences_who_at_what_price_and_who_keeps_waits(comparison):
    said = answer(altered(comparison, [1, 0.4, 0.7], waits=[1, 5, 1.1]))
    assert len(said) == 3
    assert "saf+easy: its bounded slowdown is 60% lower than that of fcfs+easy" in said[0] and "2 comparisons" in said[0]
    assert "longest wait 5.00 times that of fcfs+easy" in said[1] and "Simulated continuously" in said[1]
    assert "within 1.2 times" in said[2] and "saf+easy+guard24h is best: its slowdown is 30% lower." in said[2]
    none = answer(altered(comparison, [1, 0.4, 0.7], waits=[1, 5, 1.3]))
    assert none[2] == "No scheduler that is better keeps the longest wait within 1.2 times fcfs+easy's in every replay."
    kept = answer(altered(comparison, [1, 0.4, 0.7], waits=[1, 1, 5]))
    assert kept[2] == "Its longest wait is within 1.2 times that of fcfs+easy in every replay."


def test_a_star_is_for_those_whom_no_other_beats_on_both(comparison):
    assert altered(comparison, [1, 0.4, 0.7], waits=[1, 5, 1.1]).pareto() == [0, 1, 2]
    assert altered(comparison, [1, 0.4, 0.7], waits=[1, 0.9, 1.1]).pareto() == [1]
    assert altered(comparison, [1, 0.4, 0.7], waits=[1, 2, 3]).pareto() == [0, 1]
    assert altered(comparison, [1, 1.4, 0.7], waits=[1, 0.5, 1]).pareto() == [1, 2]


def test_nothing_is_claimed_where_nothing_is_there(comparison):
    worse = answer(altered(comparison, [1, 1.4, 1.7]))
    assert len(worse) == 1 and worse[0].startswith("No scheduler here is better than fcfs+easy")
    calm = jw.workload(100.0 * np.arange(300), np.ones(300, int), np.full(300, 50.0), cluster=jw.pool(4))
    quiet = compare(calm, ["fcfs+easy", "sjf+easy"], replicas=0)
    assert len(answer(quiet)) == 1 and "hardly a queue" in answer(quiet)[0]


def test_too_few_windows_are_said_to_be_too_few(comparison):
    """Six blocks, five of them far lower, one a little higher: an interval far from 0, and no exact test that carries it."""
    w = jw.lublin(2_000, procs=64, load=0.9, seed=1)
    c = compare(w, ["fcfs+easy", "sjf+easy"])
    e = c.change(1)
    assert e.blocks == 6 and e.high < 0 and e.flips >= 0.05 and not c.claimed[1]
    for said in (c.verdict(1), answer(c)[0]):
        assert "too few windows to claim it: 12 windows make 6 blocks of time" in said and "no difference" not in said


def made(p, flips, change=-0.3):
    return Effect(change, change - 0.1, change + 0.1, p, flips, np.log1p(change), 0.05, 12)


def test_a_claim_needs_both_tests_and_holms_adjustment():
    assert claims([made(0.01, 0.01)]) == [True]
    assert claims([made(0.01, 0.06)]) == [False]  # signs alone might be chance
    assert claims([made(0.06, 0.01)]) == [False]
    assert claims([made(0.02, 0.01), made(0.04, 0.01), made(0.03, 0.01)]) == [False] * 3  # 0.06, 0.06, 0.06
    assert claims([made(0.001, 0.01), made(0.04, 0.01)]) == [True, True]
    assert claims([made(nan, nan), made(0.03, 0.01)]) == [False, True]


def test_no_interval_of_totals_below_six_blocks():
    rng = np.random.default_rng(0)
    for windows in range(2, 15):
        base, ours = rng.uniform(5, 6, windows), rng.uniform(3, 4, windows)
        assert np.isnan(totals(base, ours).low) == (windows < 12), windows
    assert np.isnan(effect(rng.normal(size=5)).low) and not np.isnan(effect(rng.normal(size=6)).low)


def test_verdicts_say_lower_only_where_it_may_be_claimed(comparison):
    c = replace(altered(comparison, [1, 0.4, 0.7]), fair=2)
    (hindsight, fair), *_ = against(c, [1], inf)
    assert fair["claimed"] and fair["rule"] == "saf+easy+guard24h" and ", lower" in fair["verdict"]
    rng = np.random.default_rng(3)
    x = c.windows["bounded_slowdown"].copy()
    x[1] = x[2] * np.exp(rng.normal(0, 1.0, x[2].shape))
    (_, fair), *_ = against(replace(c, windows=c.windows | {"bounded_slowdown": x}), [1], inf)
    assert not fair["claimed"] and "lower" not in fair["verdict"] and "higher" not in fair["verdict"]


def test_verdicts_of_several_policies_are_adjusted_for_their_number(comparison):
    """A difference that one policy may claim alone is not claimed for it among twenty."""
    c = altered(comparison, [1, 1, 1])
    x, n = c.windows["bounded_slowdown"].copy(), comparison.windows["bounded_slowdown"].shape[1]
    found = None
    for seed in range(200):
        x[1] = x[0] * np.exp(-0.1 + np.repeat(np.random.default_rng(seed).normal(0, 0.15, n // 2), 2)[: len(x[0]), None])
        one = replace(c, windows=c.windows | {"bounded_slowdown": x}, fair=0)
        if 0.01 < one.change(1, 0).p < 0.04 and one.change(1, 0).flips < 0.04:
            found = one
            break
    assert found is not None
    assert against(found, [1], inf)[0][1]["claimed"] and not against(found, [1] * 20, inf)[0][1]["claimed"]


def test_a_broken_bound_says_how_often_and_by_how_much(comparison):
    c = replace(altered(comparison, [1, 0.4, 0.7], waits=[1, 1.3, 1.1]), fair=2)
    said = verdicts(c, [1], 1.2)
    assert len(said) == 2 and "at most 1.2 was asked for: exceeded in 3 of 3 replays (1.30 at most)" in said[0]
    assert "best on the earlier jobs within 1.2 times" in said[1] and "kept in every replay" in said[1]
    assert not any("broken" in x for x in said)


def test_what_ending_jobs_at_their_request_changes_is_one_sentence(comparison):
    c, other = altered(comparison, [1, 0.4, 0.7]), altered(comparison, [1, 0.9, 1.0])
    text = other_way(c, other, kill=False)
    assert text.count(".") - text.count("0.") <= 2 and "(--end-at-limit)" in text and "saf+easy would have -10%" in text
    assert "instead of -60%" in text


def test_a_comparison_prints_in_five_lines(comparison):
    lines = repr(comparison).split("\n")
    assert len(lines) <= 5 and all(len(x) < 140 for x in lines)
    assert "3,000 jobs" in lines[0] and any("saf+easy:" in x and "claimed" in x for x in lines)


def test_one_table_and_the_json_has_both_ways(tmp_path, capsys):
    w = jw.lublin(1500, 64, seed=3, load=0.9, estimates="users")
    w.truth["runtime"][::4] *= 8
    jw.write_swf(w, tmp_path / "log.swf")
    words = ["compare", str(tmp_path / "log.swf"), "-p", "fcfs+easy", "-p", "saf+easy", "--replicas", "1"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"^ ?scheduler ", out, re.M)) == 1 and "--end-at-limit" in out
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"] and found["other_way"]["policies"][1]["policy"] == "saf+easy"


def test_the_best_in_hindsight_keeps_the_bound_that_was_asked_for(comparison):
    c = replace(altered(comparison, [1, 0.3, 0.7], waits=[1, 5, 1.1]), fair=0)
    (bounded, _), *_ = against(c, [2], 1.2)
    (free, _), *_ = against(c, [2], inf)
    assert bounded["rule"] == "fcfs+easy" and free["rule"] == "saf+easy"
