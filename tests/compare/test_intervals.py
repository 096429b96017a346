"""Effects, intervals and tests: by hand, against brute force, and how often they are wrong."""

from itertools import product
from math import exp, isnan, log, sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from jobwise.compare import intervals
from jobwise.compare.intervals import (
    Effect,
    claims,
    compared,
    continuous,
    crossed,
    effect,
    holm,
    in_blocks,
    log_ratio,
    over_seeds,
    pooled,
    sign_flip,
    totals,
)


def test_an_effect_by_hand():
    d = np.log([0.5, 0.8, 0.5, 0.8, 0.5, 0.8])
    e = effect(d)
    mean, error = d.mean(), d.std(ddof=1) / sqrt(6)
    assert e.change == pytest.approx(exp(mean) - 1) and e.blocks == 6 and e.error == pytest.approx(error)
    assert e.low == pytest.approx(exp(mean - 2.5705818 * error) - 1) and e.high == pytest.approx(
        exp(mean + 2.5705818 * error) - 1
    )
    assert e.p == pytest.approx(0.0073, abs=1e-4) and e.flips == 2 / 64
    assert e.text() == f"{e.change:+.0%} [{e.low:+.0%}, {e.high:+.0%}]"
    few = effect(d[:5])
    assert isnan(few.low) and isnan(few.p) and few.text() == f"{few.change:+.0%} (5 blocks)" and few.blocks == 5
    assert effect(d[:1]).text().endswith("(1 block)")


def test_windows_are_averaged_over_replicas_and_put_into_blocks():
    base, ours = np.array([[1.0, 2.0], [4.0, 4.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [1.0, 4.0], [1.0, 8.0]])
    assert log_ratio(base, ours) == pytest.approx([log(2) / 2, -log(4) / 2, log(8) / 2])
    assert in_blocks(np.arange(5.0)).tolist() == [0.5, 3.0] and in_blocks(np.arange(3.0), 1).tolist() == [0, 1, 2]
    assert in_blocks(np.array([7.0])).tolist() == [7.0]
    assert compared(np.ones(14), np.full(14, 3.0)).change == pytest.approx(2) and compared(np.ones(14), np.ones(14)).blocks == 7


def test_sign_flips_are_counted():
    rng = np.random.default_rng(0)
    for count in (1, 2, 5, 9, 12):
        d = rng.normal(0.3, 1, count)
        brute = np.mean([abs(np.dot(s, d)) >= abs(d.sum()) - 1e-12 for s in product([-1, 1], repeat=count)])
        assert sign_flip(d) == pytest.approx(brute)
    assert sign_flip(np.zeros(5)) == 1 and sign_flip(np.full(34, 0.1)) == pytest.approx(2 / 2**34)
    assert 0 < sign_flip(np.full(60, 0.1)) < 1e-4


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, float("nan"), 0.9])[0] == 1.0 and isnan(holm([0.5, float("nan")])[1])


def test_random_effects_by_hand():
    """Two logs that agree: the usual weighted mean, Hartung and Knapp's interval with one degree of freedom."""
    a, b = (Effect(exp(m) - 1, 0, 0, 0, 0, m, s, 9) for m, s in ((-0.2, 0.1), (-0.1, 0.2)))
    e = pooled([a, b])
    w = np.array([1 / 0.01, 1 / 0.04])
    mean = (w @ [-0.2, -0.1]) / w.sum()
    assert e.log == pytest.approx(mean) and e.error == pytest.approx(
        sqrt(1 / w.sum())
    )  # less spread than expected: not narrower
    assert e.high == pytest.approx(exp(mean + 12.7062 * e.error) - 1, rel=1e-3) and e.blocks == 2
    far = pooled([a, Effect(0, 0, 0, 0, 0, 1.5, 0.1, 9), Effect(0, 0, 0, 0, 0, -1.0, 0.1, 9)])
    assert far.log == pytest.approx(0.1, abs=0.02) and far.error > 0.5  # heterogeneous logs weigh alike
    assert isnan(pooled([a]).low) and pooled([]).blocks == 0


def test_totals_and_the_largest_window():
    t = totals(np.array([1.0, 1, 1, 97]), np.array([1.0, 1, 1, 47]))
    assert t.change == -0.5 and isnan(t.low) and t.share == pytest.approx(144 / 150)
    rng = np.random.default_rng(1)
    base = np.exp(rng.normal(1, 0.5, 30))
    t = totals(base, 0.8 * base * np.exp(rng.normal(0, 0.05, 30)))
    assert t.low < -0.2 < t.high < 0 and totals(np.zeros(3), np.ones(3)).text() == "+inf%"
    wild = np.ones(14)
    wild[3] = 1e6
    assert isnan(totals(np.ones(14), wild).low)  # an interval wider than tenfold says nothing, and is not printed


def test_seeds_and_jobsets_both_vary():
    rng = np.random.default_rng(0)
    seeds, sets = rng.normal(0, 0.1, 5), rng.normal(0, 0.1, 40)
    d = -0.3 + seeds[:, None] + sets + rng.normal(0, 0.01, (5, 40))
    e = crossed(d)
    alone = effect(d.mean(axis=0))
    assert e.change == pytest.approx(alone.change) and e.high - e.low > 1.5 * (alone.high - alone.low)
    parts = [(d.mean(axis=0).var(ddof=1) / 40, 39), (d.mean(axis=1).var(ddof=1) / 5, 4)]
    error = sqrt(sum(v for v, _ in parts))
    free = error**4 / sum(v**2 / f for v, f in parts)  # Satterthwaite's, by hand
    assert e.error == pytest.approx(error) and 4 < free < 39
    assert e.high == pytest.approx(exp(d.mean() + student.ppf(0.975, free) * error) - 1)
    two = crossed(d[:2])
    assert two.high == pytest.approx(exp(d[:2].mean() + 12.7062 * two.error) - 1, rel=1e-4)
    assert crossed(d[:1]).blocks == 40 and isnan(crossed(d[:, :3]).low)
    mean, low, high = over_seeds([1.0, 2.0, 3.0])
    assert mean == 2 and high == pytest.approx(2 + 4.302653 / sqrt(3)) and low == pytest.approx(4 - high)
    assert isnan(over_seeds([1.0])[1])


@pytest.mark.parametrize("seeds, between", [(2, 0.0), (2, 0.3), (3, 0.0), (3, 0.1), (3, 0.3), (5, 0.0), (5, 0.3)])
def test_intervals_over_seeds_and_blocks_hold_the_truth(seeds, between):
    """Also where seeds hardly differ: more seeds of one schedule do not widen an interval."""
    rng, held = np.random.default_rng(seeds), 0
    for _ in range(400):
        d = 0.2 + rng.normal(0, between, (seeds, 1)) + rng.normal(0, 0.3, (1, 14)) + rng.normal(0, 0.1, (seeds, 14))
        e = crossed(d)
        held += e.low <= exp(0.2) - 1 <= e.high
        assert (e.low > 0 or e.high < 0) == (e.p < 0.05)
    assert held >= 360 and (seeds == 2 or held <= 398)


def test_seeds_that_schedule_alike_count_once():
    d = np.random.default_rng(1).normal(0.1, 0.3, 14)
    one, three = effect(d), crossed(np.tile(d, (3, 1)))
    assert (three.low, three.high, three.p) == pytest.approx((one.low, one.high, one.p))


@pytest.mark.parametrize("count", [12, 26, 60])
def test_an_effect_seldom_tells_a_rule_from_itself(count):
    """Windows differ fiftyfold, replicas of a window by a fifth; a fair 95 % interval is wrong in 5 % of the trials."""
    rng, false, missed, covered = np.random.default_rng(count), 0, 0, 0
    for _ in range(400):
        level = np.exp(rng.normal(1.0, 1.0, count))
        one, other = level * np.exp(rng.normal(0, 0.2, (2, count)))
        e = compared(one, other)
        false += e.p < 0.05
        assert (e.low > 0 or e.high < 0) == (e.p < 0.05)
        e = compared(one, 0.7 * other)
        missed += e.high >= 0
        covered += e.low <= -0.3 <= e.high
    assert false <= 32 and missed <= 60 and covered >= 370
    assert intervals.BLOCK == 2


def test_random_effects_solve_their_equation():
    """Paule and Mandel: with the variance between logs, the weighted squares add up to the degrees of freedom. Brute force."""
    y, error = np.array([-0.4, 0.1, -0.2, 0.3]), np.array([0.1, 0.15, 0.08, 0.12])
    e = pooled([Effect(0, 0, 0, 0, 0, a, b, 9) for a, b in zip(y, error, strict=True)])

    def squares(between):
        w = 1 / (error**2 + between)
        return float((w * (y - (w @ y) / w.sum()) ** 2).sum())

    grid = np.linspace(0, 0.5, 200_001)
    between = grid[np.argmin([abs(squares(b) - 3) for b in grid[::100]]) * 100]
    w = 1 / (error**2 + between)
    assert squares(0) > 3 and e.log == pytest.approx((w @ y) / w.sum(), abs=1e-3)
    assert e.error == pytest.approx(1 / sqrt(w.sum()), rel=1e-2) and e.blocks == 4
    assert e.high == pytest.approx(exp(e.log + 3.182446 * e.error) - 1, rel=1e-5)
    assert 0 < e.p <= 1 and (e.p < 0.05) == (e.low > 0 or e.high < 0)
    clear = pooled([Effect(0, 0, 0, 0, 0, -0.5 - 0.01 * k, 0.05, 9) for k in range(4)])
    assert clear.p < 0.001 and clear.high < 0


def test_a_log_without_spread_does_not_outweigh_the_others():
    found = [effect(np.zeros(8)), *(Effect(0, 0, 0, 0, 0, m, 0.08, 9) for m in (-0.05, -0.08, -0.06))]
    e = pooled(found)
    assert -0.08 < e.change < -0.01 and e.low < e.change < e.high


def test_the_interval_of_totals_holds_what_it_should():
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        level = np.exp(rng.normal(1.0, 0.6, 24))
        low, high = intervals.ratio_interval(level, 0.7 * level * np.exp(rng.normal(0, 0.3, 24) - 0.045))
        held += low <= 0.7 <= high
        assert high / low < 10
    assert 270 <= held <= 297


def test_drawn_sign_flips_agree_with_counted_ones():
    d = np.random.default_rng(2).normal(0.25, 1, intervals.EXACT)
    exact = sign_flip(d)
    more = np.concatenate([d, np.full(2, 1e-9)])  # beyond what is counted
    assert sign_flip(more) == pytest.approx(exact, abs=0.01) and 0.02 < exact < 0.98


@pytest.mark.parametrize("blocks", [12, 40])
@pytest.mark.parametrize("lasting, apart", [(0.4, 0.0), (0.0, 0.15), (0.4, 0.1)])
def test_a_rule_is_not_told_from_itself_in_continuous_replays(blocks, lasting, apart):
    """Congestion that outlasts blocks, and replays that go another way as a whole: plain blocks make up to 50 % false claims."""
    rng, false, plain = np.random.default_rng(3), 0, 0
    for _ in range(600):
        noise = rng.normal(0, 0.3, (2, blocks))
        for k in range(1, blocks):
            noise[:, k] += lasting * noise[:, k - 1]
        x = np.exp(noise[:, None] + rng.normal(0, 0.1, (2, 4, blocks)) + rng.normal(0, 2 * apart, (2, 4, 1)))
        false += claims([continuous(*x)])[0]
        plain += claims([effect(log_ratio(x[0].T, x[1].T))])[0]
    assert false / 600 <= 0.09 and plain > false
    changed = continuous(x[0], 0.5 * x[0])
    assert claims([changed])[0] and changed.change == pytest.approx(-0.5)


def test_what_is_left_over_joins_the_last_block():
    assert in_blocks(np.arange(8.0), 3).tolist() == [1.0, 5.0]  # 0 1 2 | 3 4 5 6 7
    assert in_blocks(np.arange(2.0), 3).tolist() == [0.5] and in_blocks(np.arange(6.0), 3).tolist() == [1.0, 4.0]
