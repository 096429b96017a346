"""Every Python block of the README and the docs runs, and so does every example."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [(p.name, i, code) for p in PAGES for i, code in enumerate(re.findall(r"```python\n(.*?)```", p.read_text(), re.S))]


def _marked(block):
    learns = any(word in block[2] for word in ("Batch", "Encoder", "NeuralPolicy"))
    grid = "GridEnv" in block[2]
    marks = [pytest.mark.xdist_group("grid" if grid else "learning")] if learns or grid else []
    return pytest.param(*block, marks=marks, id=f"{block[0]}-{block[1]}")


@pytest.mark.parametrize(("page", "number", "code"), [_marked(b) for b in BLOCKS])
def test_blocks_run(page, number, code, capsys):
    exec(compile(code, f"{page}, block {number}", "exec"), {"__name__": "docs"})


def test_own_schedulers_are_short():
    """The README's promise: under 30 lines for both kinds together."""
    own = next(code for page, _, code in BLOCKS if page == "README.md" and "NightOnly" in code)
    assert len(own.strip().splitlines()) < 30


@pytest.mark.parametrize("name", ["own_order.py", "own_policy.py"])
def test_examples_run(name, capsys):
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    out = capsys.readouterr().out
    assert len(out.strip()) and len((ROOT / "examples" / name).read_text().splitlines()) < 45


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
