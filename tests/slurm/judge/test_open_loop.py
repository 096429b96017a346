"""A pass beside the recorded one: what counts as equal, and what as explained by nodes that were completing."""

from types import SimpleNamespace

from jobwise.slurm.judge.open_loop import Check, _compare
from jobwise.slurm.read.recording import Pass, RecordedStart, RecordedStop

NAMES = ("n0", "n1", "n2")


def a_run(*outcomes):
    """A run whose pass starts these (row, nodes); with the first set of completing nodes the second, and so on."""
    sets = [(k,) for k in range(len(outcomes) - 1)]

    def computed(p, without=()):
        return list(outcomes[1 + sets.index(without) if without else 0]), []

    about = SimpleNamespace(names=NAMES)
    key = SimpleNamespace(key=[0, 1, 2])
    known = {"completing": lambda t: sets, "site": about, "r": key, "_job": lambda row: row, "stopped": {2}}
    return SimpleNamespace(computed=computed, **known)


def recorded(*starts):
    return Pass("main", 5.0, starts=[RecordedStart(5.0, row, nodes) for row, nodes in starts])


def test_starts_that_completing_nodes_explain_are_not_counted_as_equal():
    """One of two starts is computed as it was recorded; both are where n0 had just lost a job."""
    result = Check("x")
    _compare(result, a_run([(0, (1,))], [(0, (1,)), (1, (2,))]), recorded((0, (1,)), (1, (2,))))
    assert (result.main.all, result.main.equal, result.main.explained) == (2, 1, 1)
    assert result.completing == {5.0: (0,)} and result.differences == []


def test_completing_nodes_that_explain_nothing_are_not_named():
    """Whichever of the nodes was completing, as much is different: the pass stands as it is computed."""
    result = Check("x")
    _compare(result, a_run([(0, (1,))], [(0, (1,))]), recorded((0, (1,)), (1, (2,))))
    assert (result.main.all, result.main.equal, result.main.explained) == (2, 1, 0) and result.completing == {}
    assert [(x.job, x.here, x.there, x.why) for x in result.differences] == [(1, "not started", "started on n2", "")]


def test_stops_are_compared_by_job():
    """Two jobs were stopped for others; the pass computed that one of them is."""
    result, p = Check("r"), recorded()
    p.stops.extend([RecordedStop(5.0, 2, True), RecordedStop(5.0, 1, False)])
    _compare(result, a_run([]), p)
    assert (result.stops.all, result.stops.equal) == (2, 1) and result.to_dict()["stops_equal"] == 1
