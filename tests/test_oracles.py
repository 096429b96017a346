"""Numbers from outside: published tables, other simulators, queueing theory."""

import numpy as np
import pytest

from jobwise.cluster import pool
from jobwise.simulate import simulate
from jobwise.workload import workload
from jobwise.workloads.transform import split

SEQUENCES = [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085]
ORDERS = ["fcfs", "sjf", "saf", "wfp3", "f1", "f2", "f3", "f4"]


def over_sequences(w, policy, **settings):
    parts = [w.take(slice(i, i + 1024)) for i in SEQUENCES]
    return float(np.mean([simulate(p, policy, **settings).summary()["bounded_slowdown"] for p in parts]))


@pytest.mark.parametrize(
    ("rule", "want"),
    [("commit", (7273.7714, 277.3483, 258.3664)), ("greedy+commit", (235.8173, 73.3065, 75.0682))],
)
def test_rlscheduler_published_table(log, rule, want):
    """Zhang et al., SC'20, Lublin-1: their convention commits, backfills greedily, and decides after every event."""
    w = log("lublin_256")
    for order, number in zip(("fcfs", "sjf", "f1"), want, strict=True):
        assert round(over_sequences(w, f"{order}+{rule}", single_events=True), 4) == number


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ("", (7273.7714, 47.1579, 26.9465, 118.7401, 34.5299, 32.2462, 35.1579, 20.6790)),
        ("+easy", (271.4040, 42.0838, 34.3763, 80.3252, 35.2622, 35.6557, 35.3287, 29.6599)),
    ],
)
def test_the_same_sequences_deciding_anew(log, rule, want):
    w = log("lublin_256")
    for order, number in zip(ORDERS, want, strict=True):
        assert round(over_sequences(w, order + rule), 4) == number


TABLE = {  # order: none, EASY: bounded slowdown, wait, slowdown, makespan, utilisation, longest wait
    "fcfs": ((66502.4755, 2388443.760, 111241.7036, 12482549, 0.654908, 4759976), (590.0538, 97155.995, 1011.7872, 8730698, 0.936343, 1029731)),
    "sjf": ((53.5435, 275304.223, 79.4218, 11359058, 0.719683, 10454458), (40.5596, 59632.195, 66.6248, 10351841, 0.789707, 9067006)),
    "saf": ((20.3090, 104050.804, 30.5728, 11587883, 0.705472, 10567333), (23.8624, 59038.871, 36.7508, 10458494, 0.781654, 9382751)),
    "wfp3": ((232.4247, 751198.498, 297.8632, 10529087, 0.776414, 9739365), (117.0321, 61095.976, 188.2606, 8964857, 0.911886, 2849520)),
    "f1": ((32.7272, 78666.884, 48.9378, 10274060, 0.795686, 6024676), (40.0798, 71421.649, 63.4952, 10082198, 0.810828, 5499063)),
    "f2": ((25.3870, 82658.597, 38.3433, 10905033, 0.749647, 8330257), (34.1752, 60751.310, 53.1747, 10221192, 0.799802, 7646416)),
    "f3": ((84.4050, 247053.452, 130.4517, 13043281, 0.626754, 10756125), (32.6421, 56589.456, 52.9328, 10204417, 0.801116, 7917261)),
    "f4": ((42.0642, 295753.258, 55.1579, 13557456, 0.602984, 11758432), (40.5409, 56184.506, 68.6746, 10200928, 0.801390, 8363830)),
}  # fmt: skip


@pytest.mark.parametrize("order", TABLE)
def test_all_of_lublin_256(log, order):
    """FCFS agrees with RLScheduler's simulator, AccaSim and pyss; SJF with AccaSim; FCFS+EASY with a fork of pyss."""
    w = log("lublin_256")
    for rule, want in zip(("", "+easy"), TABLE[order], strict=True):
        s = simulate(w, order + rule).summary()
        got = (
            round(s["bounded_slowdown"], 4), round(s["wait"], 3), round(s["slowdown"], 4),
            int(s["makespan"]), round(s["utilisation"], 6), int(s["max_wait"]),
        )  # fmt: skip
        assert got == want


@pytest.mark.parametrize(
    ("name", "jobs", "policy", "slowdown", "digits"),
    [
        ("SDSC-SP2", 54034, "fcfs+easy", 103.402, 3),
        ("SDSC-SP2", 54034, "sjf+easy", 82.233, 3),
        ("ALCF-Theta", 26671, "fcfs+easy", 46.089, 3),
        ("ALCF-Theta", 26671, "sjf+easy", 20.691, 3),
        ("SDSC-BLUE", 232542, "fcfs+easy", 37.41, 3),
        ("SDSC-BLUE", 232542, "sjf+easy", 25.557, 3),
        ("RICC", 447784, "fcfs+easy", 839.228, 3),
        ("RICC", 447784, "sjf+easy", 327.819, 3),
    ],
)
def test_real_logs(log, name, jobs, policy, slowdown, digits):
    w = log(name)
    assert len(w) == jobs
    assert round(simulate(w, policy).summary()["bounded_slowdown"], digits) == slowdown


@pytest.mark.parametrize(
    ("name", "policy", "want"),
    [
        ("SDSC-SP2", "fcfs", (145.93, 34505, 58.6, 124.5)),
        ("SDSC-SP2", "saf", (126.09, 103351, 229.8, 7606.3)),
        ("SDSC-SP2", "sjf", (90.68, 43985, 324.7, 1318.0)),
        ("SDSC-SP2", "sjf guard72h", (81.56, 30854, 87.5, 135.2)),
        ("SDSC-BLUE", "fcfs", (65.77, 12576, 37.6, 119.1)),
        ("SDSC-BLUE", "saf", (91.18, 15112, 36.8, 5188.8)),
        ("SDSC-BLUE", "saf guard24h", (35.34, 8695, 46.7, 128.2)),
        ("SDSC-BLUE", "sjf guard24h", (35.82, 8579, 41.0, 122.9)),
        ("ALCF-Theta", "fcfs", (47.50, 17519, 67.2, 134.7)),
        ("ALCF-Theta", "saf", (16.17, 8833, 42.4, 356.4)),
        ("ALCF-Theta", "saf guard72h", (25.28, 10539, 75.5, 137.5)),
        ("LANL-CM5", "fcfs", (29.53, 2272, 7.5, 32.0)),
        ("LANL-CM5", "saf", (7.93, 1396, 7.7, 470.7)),
        ("LANL-CM5", "saf guard24h", (10.77, 1424, 9.4, 49.2)),
    ],
)
def test_starvation_table(log, name, policy, want):
    order, _, guard = policy.partition(" ")
    s = simulate(split(log(name))[1], f"{order}+easy" + (f"+{guard}" if guard else "")).summary()
    got = (round(s["bounded_slowdown"], 2), round(s["wait"]), round(s["p99_wait"] / 3600, 1), round(s["max_wait"] / 3600, 1))
    assert got == want


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.6), (3, 0.8), (16, 0.9)])
def test_m_m_c_mean_wait(servers, rho):
    """Erlang C: mean wait = C / (c mu - lambda); 20 runs of 20,000 jobs, within their 99.9 % interval."""
    offered = servers * rho
    terms = [1.0]
    for k in range(1, servers + 1):
        terms.append(terms[-1] * offered / k)
    delayed = terms[-1] / (1 - rho) / (sum(terms[:-1]) + terms[-1] / (1 - rho))
    theory = delayed / (servers * (1 - rho))
    means = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arrive, serve = np.cumsum(rng.exponential(1 / offered, 22_000)), rng.exponential(1.0, 22_000)
        r = simulate(workload(arrive, np.ones(22_000, int), serve, cluster=pool(servers)), "fcfs")
        means.append((r.jobs["start"] - r.jobs["submit"])[2_000:].mean())
    assert abs(np.mean(means) - theory) < 3.9 * np.std(means, ddof=1) / np.sqrt(len(means))
