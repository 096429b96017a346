"""The grammar of scheduler names: rows that read, print, explain and forbid; and what other packages add to it.

Modules: policies/names.py.
"""

import inspect
import sys

import pytest

import jobwise as jw
from benchmarks.names import PAGE, page
from jobwise import extensions
from jobwise.errors import InputError
from jobwise.policies import parts
from jobwise.policies.names import described, resolve
from jobwise.sim.lists import orders
from jobwise.sim.lists.orders import CODES, GIVEN, LINEAR, Order

NEEDS = {
    "learned": "fcfs+easy",
    "predicted": "saf",
    "actual": "saf",
}
DEFAULTS = {part.example for part in parts.PARTS if part.value is not None and part.value == part.usual}
HEADINGS = {part.heading for part in parts.GRAMMAR}
ORDERS = list(described()["orders"])


def test_every_order_has_a_code_of_its_own_and_a_line():
    assert len({*map(int, Order), LINEAR, GIVEN}) == len(Order.__members__) + 2 == len(CODES) + 2
    lines = inspect.getsource(getattr(orders.score, "py_func", orders.score))
    for row in Order:
        assert row.doc and row.formula and CODES[row.label] == row
        if row.kind in (orders.STATIC, orders.WAITING, orders.ATTAINED) and row != Order.RANDOM:
            assert f"code == Order.{row.name}:" in lines, f"score has no line for {row.label}"


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_parses_and_prints_itself(order):
    assert resolve(order).name == resolve(order.upper()).name == order
    assert resolve(f"{order}+guard24h").name == f"{order}+guard24h"


@pytest.mark.parametrize("part", parts.GRAMMAR, ids=lambda p: p.example)
def test_every_option_parses_and_prints_itself(part):
    if part is parts.COST:
        assert part.word(part.match("cost0.5")[1]) == "cost0.5"
        with pytest.raises(InputError, match="trained with the encoder mars"):
            resolve("saf+cost0.5")
        return
    order = NEEDS.get(part.example, "saf")
    name = order if part.example in DEFAULTS else f"{order}+{part.example}"
    assert resolve(f"{order}+{part.example}").name == name


OTHERS = [name for h, table in described().items() if h not in (*HEADINGS, "orders", "from files") for name in table]


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_name_parses_and_prints_itself(name):
    assert resolve(name).name == name


def test_the_page_of_orders_is_made_from_the_rows():
    assert PAGE.read_text() == page(), "run python -m benchmarks.names"


def test_what_excludes_one_another_is_refused_in_one_line():
    for name, says in {
        "saf+conservative+commit": r"\+commit does not go with \+conservative",
        "saf+reserve0.2x100s+commit": r"\+reserve0.2x100s does not go with \+commit",
        "smith+reserve0.2x100s": "does not go with orders that know the run times",
        "drf+promise1.1x": r"\+promise1.1x needs built-in orders",
        "saf+easi": "unknown option 'easi'; did you mean easy",
        "saf+easy+easy-sjbf": "two choices of backfill",
    }.items():
        with pytest.raises(InputError, match=says) as error:
            resolve(name)
        assert "\n" not in str(error.value)


def test_where_a_part_does_not_run_is_said():
    w = jw.lublin(jobs=20, procs=8, seed=1)
    for name, says in {
        "saf+easy+pack": r"\+pack is for clusters of nodes, not for pools of processors",
        "saf+slurm": r"\+slurm is for sites \(see `jobwise slurm site`\), not for pools",
    }.items():
        with pytest.raises(InputError, match=says):
            jw.simulate(w, name)
    on_nodes = jw.simulate(w, "saf+predicted", jw.nodes(8, processors=1))  # asked view by view there
    assert on_nodes.policy == "saf+predicted" and not (on_nodes.jobs["start"] != on_nodes.jobs["start"]).any()
    with pytest.raises(InputError, match=r"\+promise1x is for pools of processors, not for clusters of nodes"):
        jw.simulate(w, "saf+promise1x", jw.nodes(8, processors=1))


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """An installed package outside the tree, with an order and a kind of policy."""
    (tmp_path / "outside.py").write_text(
        "import jobwise as jw\n"
        "def wide(jobs, now):\n    return -jobs['request'][:, 0].astype(float)\n"
        "def twice(name):\n    return jw.ListScheduler(wide, backfill='easy', label=name)\n"
    )
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[jobwise.orders]\nwide = outside:wide\nbroken = outside:nothing\n[jobwise.policies]\ntwice = outside:twice\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._points.cache_clear()
    yield
    extensions._points.cache_clear()
    sys.modules.pop("outside", None)


def test_other_packages_add_orders_and_policies(outside):
    w = jw.lublin(jobs=60, procs=16, seed=1, load=1.1)
    assert resolve("wide+easy+guard2h").name == "wide+easy+guard2h"
    want = jw.simulate(w, "largest+easy").jobs["start"]
    assert (jw.simulate(w, "wide+easy").jobs["start"] == want).all()
    assert jw.simulate(w, "twice:x").policy == "twice:x+easy"
    assert described()["orders"]["wide"] == "an order of another package"
    with pytest.raises(InputError, match="of the package outside does not load"):
        resolve("broken")
    assert resolve("fcfs+easy").name == "fcfs+easy"  # a broken entry disturbs nobody who does not ask for it
    assert "does not load" in described()["of other packages"]["broken"]
    with pytest.raises(InputError, match="trained with the encoder mars"):
        resolve("wide+cost0.5")
    with pytest.raises(InputError, match="did you mean wide"):
        resolve("widee")


ODD = {
    "saf+guard1000001h": "saf+guard1000000h",
    "saf+reserve0.0x100s": "saf",
    "saf+reserve0.0x100s+commit": "saf+commit",
    "general+learned": "general+learned",
    "slots:sjf@1234567s": "slots:sjf@1234570s",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_names_have_names_that_can_be_read(name):
    assert resolve(name).name == ODD[name]
    assert resolve(ODD[name]).name == ODD[name]


@pytest.mark.parametrize(
    "name",
    ["slots:sjf+nosuch", "slots:sjf+pack+spread", "slots:sjf+", "slots:sjf@0s", "saf+" * 3000,
     "x" * 300 + "/y", "jobwise:" + "a" * 300, "slots:" + "9" * 100, "saf+guard" + "9" * 400 + "h", "gpus:slot+slots" + "9" * 4000],
)  # fmt: skip
def test_odd_names_are_refused_in_a_line(name):
    with pytest.raises(InputError) as error:
        resolve(name)
    assert "\n" not in str(error.value) and len(str(error.value)) < 5000


def test_names_of_our_own_win(tmp_path, monkeypatch):
    """A package whose entries bear our names, or deliver nonsense, changes nothing of ours."""
    from jobwise.policies import names as grammar
    from jobwise.worlds.spec import worlds

    (tmp_path / "bad.py").write_text("def saf(jobs, now):\n    return 0 * now\ndef five(name):\n    return 5\n")
    info = tmp_path / "bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[jobwise.orders]\nsaf = bad:saf\n[jobwise.worlds]\nslots = json:dumps\nodd = json:dumps\nbroken = nowhere:x\n"
        "[jobwise.policies]\nfive = bad:five\n[jobwise.commands]\npolicies = bad:five\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._points.cache_clear()
    assert resolve("saf").order == "saf" and "another package" not in described()["orders"]["saf"]
    assert resolve("slots:sjf").name == "slots:sjf" and "odd" not in worlds() and len(grammar.kinds()) == 4
    for name, says in {"five:x": "is no policy", "odd:x": "a WorldSpec is expected", "broken:x": "does not load"}.items():
        with pytest.raises(InputError, match=says):
            resolve(name)
    extensions._points.cache_clear()
    sys.modules.pop("bad", None)


def test_messages_name_options_as_they_were_typed():
    from test_stored import FOLDER

    for file, option in {"deeprm": "guard24h", "rl-taps": "commit", "node-costs": "easy", "perjob": "express1%"}.items():
        with pytest.raises(InputError, match=rf"\+{option}( does not apply)?$"):
            resolve(f"{FOLDER / file}.safetensors+{option}")


@pytest.mark.parametrize(
    "wrong", [{"guard": None}, {"guard": "x"}, {"reserve": (0.2,)}, {"backfill": ["easy"]}, {"promise": 0.5}]
)
def test_wrong_values_from_python_are_refused(wrong):
    with pytest.raises(InputError):
        jw.ListScheduler("saf", **wrong)


def test_every_rule_of_a_world_has_a_line():
    from jobwise.worlds.gpus import policy as gpus
    from jobwise.worlds.nodes import policy as nodes
    from jobwise.worlds.slots import policy as slots

    assert set(slots.DOCS) == set(slots.RULES) and set(nodes.DOCS) == set(nodes.RULES)
    assert set(gpus.DOCS) == set(gpus.RULES) - {"learned"}  # comes from a file
