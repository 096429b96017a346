"""Encoders: shapes and parameter counts of the papers, numbers by hand, conformance.

Modules: worlds/window/encoder.py, worlds/window/encoders.py, worlds/window/mars.py, worlds/window/perjob.py,
worlds/window/sem.py.
"""

import numpy as np
import pytest
from conftest import random_workload

from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.policies.networks import Forward
from jobwise.sim.state import allocate
from jobwise.testing import check_encoder
from jobwise.workload import workload
from jobwise.worlds.window import encoders
from jobwise.worlds.window.mars import costs
from jobwise.worlds.window.passes import BEGIN, ask
from jobwise.worlds.window.settings import WindowSettings
from jobwise.worlds.window.tables import BEHIND

pytestmark = pytest.mark.xdist_group("learning")  # one worker compiles the kernels of choices, not both


def rows_network(rows, hidden, window=50):
    sizes, weights = [rows, *hidden, window], {"filter.weight": np.zeros((1, 2), "f4"), "filter.bias": np.zeros(1, "f4")}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        weights[f"net.{2 * i}.weight"] = np.broadcast_to(np.float32(0), (b, a))
    weights["net.4.bias"] = np.zeros(window, "f4")
    return Forward({"kind": "rows", "sizes": sizes}, weights)


@pytest.mark.parametrize(
    ("name", "N", "settings", "rows", "hidden", "parameters"),
    [
        ("sem", 4360, {"minimum": 128}, 134, [200, 100], 51_853),
        ("dras", 4360, {}, 4460, [4000, 1000], 21_890_053),
        ("sem", 1664, {"largest": 40}, 140, [200, 100], 53_053),
        ("dras", 1664, {}, 1764, [1000, 250], 2_026_553),
    ],
)
def test_shapes_and_parameters_of_the_paper(name, N, settings, rows, hidden, parameters):
    encoder = encoders.make(name, pool(N), **settings)
    assert encoder.shape == (rows, 2) and encoder.window == 50
    assert rows_network(rows, hidden).parameters == parameters


@pytest.mark.parametrize(("N", "rows"), [(4360, 134), (8720, 168), (17440, 236), (34880, 372)], ids=["x1", "x2", "x4", "x8"])
def test_sem_grows_with_the_number_of_jobs_that_fit(N, rows):
    assert encoders.make("sem", pool(N), minimum=128).shape == (rows, 2)
    assert encoders.make("dras", pool(N)).shape == (N + 100, 2)


@pytest.mark.parametrize("window", [1, 5, 64])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("rls", {}),
        ("perjob", {}),
        ("mars", {}),
        ("mars", {"logs": False, "cost": "drawn"}),
        ("mars", {"flows": True}),
        ("sem", {}),
        ("sem", {"minimum": 1}),
        ("sem", {"largest": 2, "rest": True}),
        ("sem", {"norm": "raw"}),
        ("sem", {"minimum": 1, "priority": "user", "urgent": [1, 2]}),
        ("dras", {}),
        ("dras", {"levels": True}),
    ],
    ids=str,
)
def test_conformance(name, settings, window):
    w = random_workload(np.random.default_rng(3), jobs=120, overruns=True)
    check_encoder(encoders.make(name, w.cluster, w.jobs, window, **settings), w)


def test_conformance_catches_a_peeping_encoder():
    from dataclasses import replace

    w = random_workload(np.random.default_rng(3), jobs=40)
    honest = encoders.make("rls", w.cluster, w.jobs, 8)

    def peeping(self, s, c, out, work, first=0, last=None):  # there is no way to the heap but around the encoder's kernel
        honest.encode(s, c, out, work, first, last)
        for e in range(first, len(out) if last is None else last):  # the root of the heap ends next
            out[e, 0, 0] = s.lists[e, 0, 0] / 100 if s.sims["running"][e] else 0.0

    def foresight(self, s, c, out, work, first=0, last=None):
        honest.encode(s, c, out, work, first, last)
        for e in range(first, len(out) if last is None else last):  # the next to come
            out[e, 0, 0] = min(s.jobs["walltime"][e, min(s.sims["next"][e], s.jobs.shape[1] - 1)] / 100, 1.0)

    for peek in (peeping, foresight):
        with pytest.raises(AssertionError, match="truth"):
            check_encoder(type("Peeping", (type(honest),), {"encode": peek})(**vars(honest)), w)
    for wrong, text in ((3.0, "not within"), (np.nan, "finite")):

        def kernel(running, moment, queue, slots, scale, work, out, first, last, wrong=wrong):
            honest.kernel(running, moment, queue, slots, scale, work, out, first, last)
            out[first:last, 0, 0] = wrong

        with pytest.raises(AssertionError, match=text):
            check_encoder(replace(honest, kernel=kernel), w)


@pytest.fixture
def stopped():
    """100 processors; jobs of 40, 30, 10, 15 run since day 0, 0, 0, 0.25 with 1, 2, 3, 1 days requested; at 0.5 days one of 90 waits."""
    day = 86400.0
    w = workload(
        [0, 0, 0, 0.25 * day, 0.5 * day],
        [40, 30, 10, 15, 90],
        [day, 2 * day, 3 * day, day, 20 * day],
        cluster=pool(100),
        user=np.array([0, 1, 2, 3, 4]),
    )
    s = allocate([w], w.cluster)
    c = WindowSettings("reserve").allocate(s, 50)
    ask(s, c, BEGIN)
    while s.sims["now"][0] < 0.5 * day:
        ask(s, c, 0)
    return s, c


def encoded(stopped, name, **settings):
    s, c = stopped
    encoder = encoders.make(name, pool(100), s.jobs[0], 50, **settings)
    out, work = encoder.buffers(1)
    encoder.encode(s, c, out, work)
    return out[0]


def test_priority_by_a_column(stopped):
    """SEM and DRAS: 1 for the jobs of the numbers that are named, whatever their size; nothing else changes."""
    s, c = stopped
    count = c.moment["count"][0]
    rows = c.queue["row"][0, c.slots[0, :count]]
    user = s.jobs["user"][0, rows]
    for name in ("sem", "dras"):
        plain, own = encoded(stopped, name), encoded(stopped, name, priority="user", urgent=[int(user[0])])
        assert own[1 : 2 * count : 2, 0].tolist() == (user == user[0]).astype(float).tolist()
        own[1 : 2 * count : 2, 0] = plain[1 : 2 * count : 2, 0]
        assert np.array_equal(own, plain)
        for wrong in (
            {"priority": "award", "urgent": [1]},
            {"priority": "queue"},
            {"urgent": [1]},
            {"priority": "user", "urgent": [-1]},
        ):
            with pytest.raises(InputError, match="priority is"):
                encoders.make(name, pool(100), s.jobs[0], 50, **wrong)
    c.queue["queue"][0], c.queue["partition"][0] = 7, 9
    for column, number in (("queue", 7), ("partition", 9)):
        assert encoded(stopped, "sem", priority=column, urgent=[1, number])[1 : 2 * count : 2, 0].all()
        assert not encoded(stopped, "sem", priority=column, urgent=[8])[1 : 2 * count : 2, 0].any()


def test_sem_by_hand(stopped):
    s, c = stopped
    assert c.moment["count"][0] >= 1
    x = encoded(stopped, "sem", largest=2)
    first = c.queue["row"][0, c.slots[0, 0]]
    size, est = s.jobs["request"][0, first, 0] / 100, min(s.jobs["walltime"][0, first] / 86400, 10)
    assert x[0].tolist() == pytest.approx([size, est])
    assert x[1].tolist() == pytest.approx([1.0, (s.sims["now"][0] - s.jobs["submit"][0, first]) / 86400])
    assert x[100].tolist() == pytest.approx([0.4, 0.5]) and x[101].tolist() == pytest.approx([0.3, 1.5])
    assert not x[2 * c.moment["count"][0] : 100].any()
    assert s.sims["running"][0] == 4
    x = encoded(stopped, "sem", largest=1, rest=True)
    sizes = [0.4, 0.3, 0.1, 0.15][1:]
    left = [0.5, 1.5, 2.5, 0.75][1:]
    assert x[101].tolist() == pytest.approx([sum(sizes), np.average(left, weights=sizes)])
    x = encoded(stopped, "sem", minimum=10)  # in order of start
    assert x[100:103].ravel().tolist() == pytest.approx([0.4, 0.5, 0.3, 1.5, 0.1, 2.5])
    x = encoded(stopped, "sem", norm="raw", largest=1)
    assert x[100].tolist() == pytest.approx([40, 43200])


def test_dras_by_hand(stopped):
    x = encoded(stopped, "dras")
    assert x.shape == (200, 2)
    assert (x[100:140] == np.float32([0, 0.5])).all() and (x[140:170] == np.float32([0, 1.5])).all()
    used = int(stopped[1].moment["total"][0] - stopped[1].moment["free"][0])
    assert (x[100 + used :] == [1, 0]).all() and (x[100 : 100 + used, 0] == 0).all()


def test_the_last_row_says_which_level_is_asked(stopped):
    s, c = stopped
    for name in ("sem", "dras"):
        plain, x = encoded(stopped, name), encoded(stopped, name, levels=True)
        assert np.array_equal(plain, x[:-1]) and x[-1].tolist() == [0, 0]
    before, c.moment["phase"][0] = c.moment["phase"][0], BEHIND
    assert [encoded(stopped, name, levels=True)[-1].tolist() for name in ("sem", "dras")] == [[1, 0], [1, 0]]
    c.moment["phase"][0] = before


def test_rls_by_hand(stopped):
    s, c = stopped
    x = encoded(stopped, "rls")
    row = c.queue["row"][0, c.slots[0, 0]]
    job, now = s.jobs[0, row], s.sims["now"][0]
    top = 1 - 1e-5
    expected = [
        min((now - job["submit"]) / 43200, top),
        min(job["walltime"] / (20 * 86400), top),
        min(job["request"][0] / 100, top),
        top,
        min(job["user"] / 4, top),
        top,
        top,
        top if job["request"][0] <= c.moment["free"][0] else 1e-5,
    ]
    assert x[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_mars_by_hand():
    day = 86400.0
    sizes, asked = [40, 30, 10, 90, 50, 8], [day, 2 * day, 3 * day, 20 * day, day, 0.1 * day]
    w = workload([0, 0, 0, *[0.5 * day] * 3], sizes, asked, cluster=pool(100), user=np.arange(6))
    s = allocate([w], w.cluster)
    c = WindowSettings("reserve").allocate(s, 50)
    ask(s, c, BEGIN)
    while s.sims["now"][0] < 0.5 * day:
        ask(s, c, 0)
    stopped = s, c
    c.moment["shadow"] = 0.6 * day
    c.moment["phase"][0], before = BEHIND, c.moment["phase"][0]
    x, y = encoded(stopped, "mars"), encoded(stopped, "mars", logs=False, cost="drawn")
    rows = c.queue["row"][0, c.slots[0, : c.moment["count"][0]]]
    jobs, now, m = s.jobs[0, rows], s.sims["now"][0], c.moment[0]
    n, r, w = jobs["request"][:, 0].astype(float), np.maximum(jobs["walltime"], 1.0), now - jobs["submit"]
    k, top = len(rows), 1 - 1e-5
    assert x[:k, 0].tolist() == pytest.approx((np.log(w + 60) - 4) / 10, abs=1e-6)
    assert x[:k, 1].tolist() == pytest.approx(np.log(r) / 15, abs=1e-6)
    assert x[:k, 2].tolist() == pytest.approx(np.log(n) / np.log(100), abs=1e-6)
    assert y[:k, 0].tolist() == pytest.approx(np.minimum(w / 43200, top), abs=1e-6)
    assert y[:k, 1].tolist() == pytest.approx(np.minimum(r / (20 * 86400), top), abs=1e-6)
    assert y[:k, 2].tolist() == pytest.approx(np.minimum(n / 100, top), abs=1e-6)
    assert np.array_equal(x[:k, 3:8], y[:k, 3:8])
    area = n * r
    dear = (area - area.min()) / np.ptp(area)
    assert x[:k, 8].tolist() == pytest.approx(dear, abs=1e-6) and ((y[:k, 8] >= 0) & (y[:k, 8] <= 1)).all()
    assert (x[:k, 9:13] == [1, 0, 0, 0]).all()  # no memory, no bytes are known
    seen = [m["free"] / 100, m["queued"] / 128, m["running"] / 128, 1.0]
    assert x[0, 13:17].tolist() == pytest.approx(seen, abs=1e-6)
    assert x[:k, 17].tolist() == (now + r <= m["shadow"]).tolist()
    c.moment["phase"][0] = before


def test_costs_are_what_the_encoder_shows_and_as_the_paper_draws_them():
    w = random_workload(np.random.default_rng(5), jobs=4000, procs=64)
    drawn = costs(w.jobs, encoders.make("mars", w.cluster, w.jobs, cost="drawn"))
    assert abs(drawn.mean() - 0.5) < 0.02 and abs(drawn.std() - 0.15) < 0.02 and drawn.min() >= 0 and drawn.max() <= 1
    price = costs(w.jobs, encoders.make("mars", w.cluster, w.jobs, core_hour=2.0, gb_hour=0.0))
    area = w.jobs["request"][:, 0] * np.maximum(w.jobs["walltime"], 1)
    assert price == pytest.approx((area - area.min()) / np.ptp(area))
    for wrong in ({"cost": "free"}, {"core_hour": -1.0}, {"core_hour": 1}):
        with pytest.raises(InputError, match="encoder mars"):
            encoders.make("mars", w.cluster, **wrong)


def test_wrong_settings_are_one_line():
    for call, text in (
        (lambda: encoders.make("sme", pool(10)), "did you mean sem"),
        (lambda: encoders.make("sem", pool(10), minimum=11), "0 to 10"),
        (lambda: encoders.make("sem", pool(10), norm="week"), "day"),
        (lambda: encoders.make("sem", pool(10), larges=2), "did you mean largest"),
        (lambda: encoders.make("dras", pool(2**21)), "too many"),
    ):
        with pytest.raises(InputError, match=text):
            call()
