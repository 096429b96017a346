"""House words are found where they stand, and nowhere in docs, docstrings, help and messages."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import words  # noqa: E402


def test_a_house_word_is_found_and_names_are_not_read(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("It is told so.\n\n```\ntold\n```\nThe `told` option; [x](told.md).\n" + "word " * 36 + "end.\n")
    assert list(words.found(page)) == [f"{page}:1: told -> {words.WORDS['told']}"]
    module = tmp_path / "a.py"
    module.write_text('"""A film of it."""\nraise InputError("so many")\nx = "told"\n')
    assert [x.split(": ")[1].split(" ->")[0] for x in words.found(module)] == ["film", "so many"]
    assert max(len(s.split()) for s in words.sentences(page.read_text())) == 37


def test_docs_docstrings_help_and_messages_have_none(monkeypatch):
    monkeypatch.chdir(ROOT)
    listed = [str(p) for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in ("history.md", "tried.md")]
    listed += [str(p) for p in sorted((ROOT / "docs" / "systems").glob("*.md"))]
    listed += [str(p) for p in sorted((ROOT / "jobwise").rglob("*.py"))]
    assert words.main([str(ROOT / "README.md"), *listed]) == 0
