"""What a comparison answers, and its verdicts: one effect, one number, one word; `repr` and frames of results.

Modules: compare/against.py, report/frames.py.
"""

import json
import re
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli import run
from jobwise.compare.against import against
from jobwise.compare.answer import answer, overrun
from jobwise.compare.comparison import HEADS, verdict_of
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


def test_the_answer_says_who_is_better_at_what_price_and_what_is_not_shown(comparison):
    said = answer(altered(comparison, [1, 0.4, 0.7], waits=[1, 5, 1.1]))
    assert len(said) == 3
    assert said[0].startswith("saf+easy is better than fcfs+easy: slowdown 60% lower in a typical block of time")
    assert "adjusted for 2 comparisons" in said[0] and "mean is not lower" not in said[0]
    assert "5.00 times that under fcfs+easy" in said[1] and "saf+easy+guard24h is best (-30%" in said[1]
    assert said[2].startswith("Not shown: ")
    none = answer(altered(comparison, [1, 0.4, 0.7], waits=[1, 5, 1.3]))
    assert none[1].endswith("; no scheduler that is better stays within 1.2 times.")
    kept = answer(altered(comparison, [1, 0.4, 0.7], waits=[1, 1, 5]))
    assert kept[1].endswith("1.00 times that under fcfs+easy.")


def test_a_mean_that_a_few_jobs_spoil_is_named(comparison):
    c = altered(comparison, [1, 0.4, 0.7])
    worse = [[dict(s, bounded_slowdown=s["bounded_slowdown"] * 3) for s in c.replays[0]], *c.replays[2:]]
    said = answer(replace(c, replays=[c.replays[0], *worse]))
    assert "slowdown 60% lower" in said[0] and said[0].endswith("A few jobs wait so long that its mean is not lower.")


def test_a_star_is_for_those_whom_no_other_beats_on_both(comparison):
    assert altered(comparison, [1, 0.4, 0.7], waits=[1, 5, 1.1]).pareto() == [0, 1, 2]
    assert altered(comparison, [1, 0.4, 0.7], waits=[1, 0.9, 1.1]).pareto() == [1]
    assert altered(comparison, [1, 0.4, 0.7], waits=[1, 2, 3]).pareto() == [0, 1]
    assert altered(comparison, [1, 1.4, 0.7], waits=[1, 0.5, 1]).pareto() == [1, 2]


def test_nothing_is_claimed_where_nothing_is_there(comparison):
    worse = answer(altered(comparison, [1, 1.4, 1.7]))
    assert worse[0].startswith("saf+easy is worse than fcfs+easy: slowdown 40% higher")
    calm = jw.workload(100.0 * np.arange(300), np.ones(300, int), np.full(300, 50.0), cluster=jw.pool(4))
    quiet = compare(calm, ["fcfs+easy", "sjf+easy"], replicas=0)
    assert len(answer(quiet)) == 1 and "hardly a queue" in answer(quiet)[0]
    assert quiet.judged(1) == ("too few jobs to say", "this log has hardly a queue, and without one no order matters")


def test_a_verdict_is_one_of_four_and_says_why():
    few = Effect(-0.3, nan, nan, nan, nan, -0.4, nan, 3)
    assert verdict_of(few, False) == ("too few jobs to say", "they make 3 blocks of time, and 6 are needed")
    assert verdict_of(made(0.01, 0.01), True) == ("better", "") and verdict_of(made(0.01, 0.01, 0.3), True) == ("worse", "")
    open_ = Effect(-0.1, -0.3, 0.2, 0.4, 0.5, -0.1, 0.1, 12)
    assert verdict_of(open_, False) == ("no significant difference", "")
    verdict, why = verdict_of(made(0.01, 0.06), False)  # the interval is far from 0, and an exact test does not carry it
    assert verdict == "too few jobs to say" and "12 blocks of time" in why and "p = 0.06" in why
    verdict, why = verdict_of(made(0.04, 0.01), False)
    assert verdict == "no significant difference" and "Holm" in why


def test_too_few_jobs_are_said_to_be_too_few():
    w = jw.lublin(1_000, procs=64, load=0.9, seed=1)
    c = compare(w, ["fcfs+easy", "sjf+easy"], window_jobs=200, replicas=0)
    assert c.change(1).blocks == 2 and not c.claimed[1]
    assert "too few jobs to say whether it is better than fcfs+easy" in answer(c)[0] and "6 are needed" in answer(c)[0]


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


def varied(c, p, base, spread, seed):
    """The comparison as if policy p had the slowdowns of `base` times noise that differs from block to block."""
    blocks = c.blocks.copy()
    noise = np.random.default_rng(seed).normal(-0.1, spread, blocks.shape[2])
    blocks[p] = blocks[base] * np.exp(noise)[None]
    return replace(c, blocks=blocks)


def test_a_rule_is_beaten_only_where_it_may_be_claimed(comparison):
    c = replace(altered(comparison, [1, 0.4, 0.7]), fair=2)
    (_, fair), *_ = against(c, [1], inf)
    assert fair.claimed and c.policies[fair.rule] == "saf+easy+guard24h" and fair.verdict == "better"
    assert fair.change.change == pytest.approx(0.4 / 0.7 - 1)
    (_, fair), *_ = against(varied(c, 1, 2, 1.0, 3), [1], inf)
    assert not fair.claimed and fair.verdict == "no significant difference"


def test_verdicts_of_several_policies_are_adjusted_for_their_number(comparison):
    """A difference that one policy may claim alone is not claimed for it among twenty."""
    c, found = altered(comparison, [1, 1, 1]), None
    for seed in range(400):
        one = replace(varied(c, 1, 0, 0.15, seed), fair=0)
        if 0.01 < one.change(1, 0).p < 0.04 and one.change(1, 0).flips < 0.04:
            found = one
            break
    assert found is not None
    assert against(found, [1], inf)[0][1].claimed and not against(found, [1] * 20, inf)[0][1].claimed


def test_rules_that_joined_do_not_count_among_those_that_were_asked_for(comparison):
    """Fifty rules that joined leave the verdict on the one scheduler that was asked for as it is alone."""
    c, found = altered(comparison, [1, 1, 1]), None
    for seed in range(400):
        one = varied(c, 1, 0, 0.15, seed)
        if 0.026 < one.change(1).p < 0.04 and one.change(1).flips < 0.04:
            found = one
            break
    assert found is not None and not found.claimed[1]  # 0.026 x 2 is more than 0.05
    assert replace(found, joined=1).claimed[1]


def test_a_broken_bound_says_how_often(comparison):
    c = replace(altered(comparison, [1, 0.4, 0.7], waits=[1, 1.3, 1.1]), fair=2, bound=1.2)
    said = answer(c, [1])
    assert "1.30 times that under fcfs+easy; at most 1.2 was asked for: exceeded in 3 of 3 replays" in said[1]
    mean = f"{c.whole[2]['bounded_slowdown']:,.1f}"
    best = f"the best other of this table, saf+easy+guard24h (slowdown {mean}; chosen before, too)"
    assert said[2] == f"saf+easy is better even than {best}: {c.change(1, 2).text()}."
    other = answer(replace(c, fair=0), [1])
    assert "The rule that was best on the earlier jobs, fcfs+easy" in other[2] and len(other) == 4


def test_what_ending_jobs_at_their_request_changes_is_one_sentence(comparison):
    c, other = altered(comparison, [1, 0.4, 0.7]), altered(comparison, [1, 1.2, 0.6])
    text = overrun(c, other, False)
    assert "(--end-at-limit)" in text and text.endswith("other verdicts: saf+easy worse.")
    assert overrun(c, c, False).endswith("every verdict is the same.")


def test_a_comparison_prints_its_table(comparison):
    lines = repr(comparison).split("\n")
    assert len(lines) == 8 and lines[0].startswith("3,000 jobs of lublin-64 on 64 processors")
    assert all(head in lines[2] for head in HEADS) and lines[3].startswith("fcfs+easy ")
    assert lines[4].endswith(comparison.verdict(1))


def test_results_are_frames_of_pandas(comparison):
    frame = comparison.frame()
    assert list(frame.index) == comparison.policies and frame.loc["saf+easy", "verdict"] == comparison.verdict(1)
    assert frame.loc["saf+easy", "change"] == comparison.change(1).change
    r = comparison.records[1]
    jobs = r.frame()
    assert len(jobs) == 3000 and jobs["wait"].mean() == pytest.approx(r.summary()["wait"])
    assert repr(r).startswith("Record of 3,000 jobs of lublin-64 under saf+easy: mean slowdown ") and len(repr(r)) < 140


def test_the_screen_is_one_table_and_the_json_has_both_ways(tmp_path, capsys, monkeypatch):
    w = jw.lublin(1500, 64, seed=3, load=0.9, estimates="users")
    w.truth["runtime"][::4] *= 8
    jw.write_swf(w, tmp_path / "log.swf")
    monkeypatch.setenv("COLUMNS", "80")
    words = ["compare", str(tmp_path / "log.swf"), "-p", "fcfs+easy", "-p", "saf+easy", "--replicas", "1"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"^ ?scheduler ", out, re.M)) == 1 and "--end-at-limit" in out
    assert max(map(len, out.split("\n"))) <= 80 and len(out.split("\n")) <= 24
    monkeypatch.setenv("COLUMNS", "120")
    assert run([*words, "--all"]) == 0
    more = capsys.readouterr().out
    assert len(re.findall(r"^ ?scheduler ", more, re.M)) == 4 and "won/tied/lost" in more
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"] and found["other_way"]["policies"][1]["policy"] == "saf+easy"
    one = found["policies"][1]
    assert one["verdict"] in out.replace("\n", " ") or one["verdict"].startswith("too few")
    assert f"{one['against_first']['change']:+.0%}" in out


def test_an_old_option_names_the_new_one(capsys):
    for old, new in (
        ("--shakes", "--replicas"),
        ("--shake-s", "--jitter"),
        ("--kill", "--end-at-limit"),
        ("--on", "--executor"),
    ):
        assert run(["compare", "log.swf", old, "1"]) == 2
        assert capsys.readouterr().err == f"jobwise: {old} is called {new} now\n"


def test_the_best_in_hindsight_keeps_the_bound_that_was_asked_for(comparison):
    c = replace(altered(comparison, [1, 0.3, 0.7], waits=[1, 5, 1.1]), fair=0)
    (bounded, _), *_ = against(c, [2], 1.2)
    (free, _), *_ = against(c, [2], inf)
    assert c.policies[bounded.rule] == "fcfs+easy" and c.policies[free.rule] == "saf+easy"
