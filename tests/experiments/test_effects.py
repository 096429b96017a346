"""The figures that are drawn from the tables of the studies' pages: they are of the tables that stand there now."""

import re

import pytest

from jobwise.errors import InputError
from jobwise_experiments import effects

PAGES = list(dict.fromkeys(f["page"] for f in effects.figures()))


@pytest.mark.parametrize("name", PAGES)
def test_the_figures_of_a_page_are_those_of_its_tables(name):
    page = (effects.PAGES / f"{name}.md").read_text()
    again, files = effects.with_figures(page, name)
    command = "python -m jobwise_experiments.effects"
    assert again == page, command
    for file, text in files.items():
        kept = (effects.PAGES / "figures" / file).read_text()
        assert kept.rsplit("<!--", 1)[1] == text.rsplit("<!--", 1)[1], command  # the values; pictures differ with matplotlib


def test_every_page_of_a_study_has_a_figure():
    for path in effects.PAGES.glob("*.md"):
        if path.name != "README.md":
            assert re.search(r"!\[[^\]]+\]\(figures/[\w-]+\.svg\)", path.read_text()), path.name


def test_a_change_is_read_with_its_interval_and_its_sign():
    page = "# x\n\n## A\n\n| rule | change | n |\n|---|---|---|\n| one | −12.5% [-20%, -3%] ! | 4 |\n| two | reference | 5 |\n"
    figure = {"section": "A", "rows": [0], "columns": ["change"], "caption": "changes"}
    series = effects.values(figure, page)
    assert series == {"change": {"one": (-0.125, -0.2, -0.03)}}
    assert effects.values(figure | {"columns": ["n"], "bars": True}, page) == {"n": {"one": 4.0, "two": 5.0}}
    svg = effects.drawn(figure, series)
    assert ">one<" in svg and ">two<" not in svg and effects.digest(series) in svg
    assert effects.digest(effects.values(figure, page.replace("-3%", "-4%"))) not in svg
    for wrong, words in (
        ({"section": "B"}, "no section"),
        ({"columns": ["gain"]}, "no column 'gain'"),
        ({"table": 1}, "no table 1"),
    ):
        with pytest.raises(InputError, match=words):
            effects.values(figure | wrong, page)
