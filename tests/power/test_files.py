"""Tables, prices and caps from files: what is read, and one line for what is wrong.

Modules: power/prices.py, power/table.py.
"""

import numpy as np
import pytest
from conftest import in_docs

from jobwise.errors import InputError
from jobwise.power.prices import Stepwise, moment, read_cap, read_prices, write_prices
from jobwise.power.table import PowerTable, read_table


def file(tmp_path, text, name="x.csv"):
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_the_example_is_a_table(tmp_path):
    table = read_table(file(tmp_path, in_docs("power.md", "toml"), "t.toml"))
    assert table == PowerTable(idle=120, core=5, gpu=250, plus_minus=0.2, cores=48, off=8, suspend=30, wake=180)
    assert table.suspend_s == 1800 and PowerTable().suspend_s == np.inf


@pytest.mark.parametrize(
    "text, why",
    [
        ("idle = -5", "idle = -5: a number from 0"),
        ("idle = 'x'", "idle = 'x': a number"),
        ("idle = true", "idle = True: a number"),
        ("core = nan", "core = nan: a number"),
        ("plus_minus = 20", "from 0 to 1 is expected"),
        ("watts = 5", "watts: not known; a table has idle"),
        ("idle = 5\noff = 9", "off = 9: a node that is off"),
        ("cores = 2.5", "a whole number"),
        ("idle 120", "lines such as `idle = 120`"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, text, why):
    path = file(tmp_path, text, "t.toml")
    with pytest.raises(InputError, match=why) as error:
        read_table(path)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(str(tmp_path / "none.toml"))


def test_prices_and_intensities_are_read_in_utc_or_their_own_zone(tmp_path):
    text = "time,price_eur,carbon\n2026-03-29T00:00Z,0.1,300\n2026-03-29T03:00+02:00,-0.2,250\n2026-03-29T02:00,0.3,200\n"
    p = read_prices(file(tmp_path, text))
    assert np.diff(p.price.time).tolist() == [3600, 3600] and p.price.value.tolist() == [0.1, -0.2, 0.3]
    assert p.carbon.value.tolist() == [300, 250, 200] and p.unit == "EUR" and p.price.notes == p.carbon.notes == ()
    assert p.price.until(p.price.time).tolist() == pytest.approx([0, 360, -360])
    assert p.price.at(p.price.time + 10).tolist() == [0.1, -0.2, 0.3]


def test_written_prices_are_read_again(tmp_path):
    write_prices(str(tmp_path / "p.csv"), 1e9 - 1e9 % 3600, np.array([0.1, 0.2]), np.array([300.0, 200.0]))
    p = read_prices(str(tmp_path / "p.csv"))
    assert p.price.value.tolist() == [0.1, 0.2] and p.carbon.value.tolist() == [300.0, 200.0]


@pytest.mark.parametrize(
    "text, why",
    [
        ("time,price\n2026-10-25T02:00,1\n2026-10-25T02:00,2\n", ":3: .* comes twice; .*daylight saving ends: write UTC"),
        ("time,price\n2026-10-25T03:00,1\n2026-10-25T02:00,2\n", ":3: .* comes after 2026-10-25T03:00"),
        ("time,price\nyesterday,1\n2026-10-25,2\n", ":2: 'yesterday' is no time; UTC such as"),
        ("time,price\n2026-10-25,one\n", ":2: price is 'one'; a number"),
        ("time,price\n2026-10-25,inf\n", ":2: price is inf; a finite number"),
        ("time,carbon\n2026-10-25,-3\n", ":2: carbon is -3; a finite number of at least 0"),
        ("time,price\n2026-10-25\n", ":2: 1 cells; 2 are expected"),
        ("time,speed\n2026-10-25,1\n", ":1: no column of prices or intensities among time, speed"),
        ("hour,price\n1,2\n", ":1: no column of times"),
        ("time,price,cost\n2026-10-25,1,1\n", "price and cost could both be meant"),
        ("", "a line of names and a row for each hour"),
    ],
)
def test_bad_prices_are_one_line(tmp_path, text, why):
    with pytest.raises(InputError, match=why) as error:
        read_prices(file(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_gap_is_held_over_and_said(tmp_path):
    rows = [f"2026-03-29T{h:02d}:00,{h}" for h in range(12) if h != 2]
    p = read_prices(file(tmp_path, "time,price\n" + "\n".join(rows)))
    assert p.price.at(np.array([p.price.time[1] + 5400.0])).tolist() == [1.0]
    assert len(p.price.notes) == 1 and "1 gaps, the first of 2 h behind line 3" in p.price.notes[0]


def test_a_cap_is_a_power_or_a_file(tmp_path):
    assert read_cap("2.4MW").value.tolist() == [2.4e6] and read_cap("800 kw").value.tolist() == [8e5]
    steps = read_cap(file(tmp_path, "time,cap_kw\n2026-01-01,50\n2026-01-02,40\n"))
    assert steps.value.tolist() == [5e4, 4e4]
    steps = read_cap(file(tmp_path, "time,cap\n2026-01-01,50kW\n2026-01-02,0.04MW\n"))
    assert steps.value.tolist() == [5e4, 4e4]


@pytest.mark.parametrize("text, why", [("2.4", "a power such as"), ("0W", "more than 0 W"), ("-3MW", "a power such as")])
def test_bad_caps_are_one_line(text, why):
    with pytest.raises(InputError, match=why):
        read_cap(text)


def test_a_cap_without_a_unit_is_refused(tmp_path):
    with pytest.raises(InputError, match=":2: cap is '50'; a power with its unit is expected"):
        read_cap(file(tmp_path, "time,cap\n2026-01-01,50\n"))
    with pytest.raises(InputError, match=":2: .* a finite number of at least 0"):
        read_cap(file(tmp_path, "time,cap_kw\n2026-01-01,-50\n"))


def test_seconds_are_times_too():
    assert moment("1700000000", "x") == 1.7e9


def test_rows_that_do_not_cover_the_jobs_are_named():
    """Rows of 1 h from 10 h to 13 h hold until 14 h; jobs from 9 h to 20 h: 1 h before, 6 h behind."""
    steps = Stepwise(3600.0 * np.arange(10, 14), np.ones(4))
    hour = 3600.0
    said = "the prices do not cover the first 1.0 h and the last 6.0 h of the jobs' time: the nearest value holds there"
    assert steps.ends_of(9 * hour, 20 * hour, "the prices") == (said,)
    assert steps.ends_of(10 * hour, 14 * hour, "prices") == ()
    assert "do not cover the last 2.0 h of" in steps.ends_of(20 * hour, 22 * hour, "the prices")[0]
    assert read_cap("2MW").ends_of(0.0, 1e9, "cap") == ()
