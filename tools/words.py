"""House words, and what to write instead: in docs, docstrings, help and messages.

python tools/words.py [FILE…]      prints FILE:LINE: word -> better; exit code 1 where there is one
python tools/words.py --sentences  also prints, per page of the docs, the mean and the longest sentence, and those over 35 words

Names in `backticks` and blocks of code are not read: they are names.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS = {  # a pattern -> the field's word, or a plain one; docs/glossary.md has the nouns
    r"not to be told": "no significant difference",
    r"foretold|foretell\w*": "predicted",
    r"told": "predicted; or who says what to whom: 'the site says'",
    r"so many": "a number: 'N jobs', 'that many', 'how many'",
    r"shak(?:e|en|es|ing)": "time-shifted replica; jitter",
    r"films?": "animation",
    r"express lane": "short-job lane",
    r"promis(?:e|es|ed)": "start deadline",
    r"whom": "which; a sentence of its own",
    r"the one that|those that do": "name it",
    r"(?:is|are|be) to be (?:had|said|seen)": "a verb with a subject",
    r"there will be none": "say what happens",
    r"nobody knows": "unknown",
}
LONGEST, MEAN = 35, 18  # words of a sentence in the docs
STORED = ("docs/studies/", "jobwise_experiments/prose/")  # pages made of stored text
SKIPPED = (*STORED, "docs/history.md", "CHANGELOG.md", "docs/tried.md")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of the prose of a page: no code, no names in backticks, no targets of links."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.startswith(("    ", "<!--", "---")):
            yield number, re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "NAME", line))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text) of the docstrings, the help and the messages of a module."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node, clean=False)):
            yield node.body[0].lineno, text
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("InputError", "unknown"):
            yield from _strings(node)
        elif isinstance(node, ast.keyword) and node.arg == "help":
            yield from _strings(node.value)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.lineno, part.value


def found(path: Path) -> Iterator[str]:
    """What a file says in house words, a line each."""
    lines = prose(path.read_text()) if path.suffix == ".md" else texts(path)
    for number, text in lines:
        for k, line in enumerate(re.sub(r"`[^`]*`", "NAME", text).split("\n")):
            for pattern, better in WORDS.items():
                for match in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE):
                    yield f"{path}:{number + k}: {match[0]} -> {better}"


def sentences(text: str) -> list[str]:
    """The sentences of a page: from a full stop to the next; a cell of a table and an item of a list are sentences."""
    lines = ["" if line.startswith(("|", "#", "![")) else line for _, line in prose(text)]
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-] |\d+\. ))", "\n".join(lines))
    return [s for part in parts for s in re.split(r"(?<=[.!?:;])\s+", " ".join(part.split())) if s]


def _known() -> list[Path]:
    """The pages and the modules that git knows."""
    listed = subprocess.run(["git", "ls-files", "*.md", "jobwise/*.py"], capture_output=True, text=True, check=True).stdout
    return [Path(f) for f in listed.split() if not f.startswith((*SKIPPED, "benchmarks/"))]


def main(arguments: list[str]) -> int:
    """Check files, by default all that git knows."""
    named = [Path(a) for a in arguments if not a.startswith("--")]
    files = named or _known()
    wrong = [x for f in files for x in found(f)]
    counts = {f: [len(s.split()) for s in sentences(f.read_text())] for f in files if f.suffix == ".md"}
    for f, lengths in counts.items():
        if "--sentences" in arguments and lengths:
            print(f"{f}: {len(lengths)} sentences, mean {sum(lengths) / len(lengths):.1f}, longest {max(lengths)}")
        wrong += [f"{f}: {len(s.split())} words: {s[:90]}…" for s in sentences(f.read_text()) if len(s.split()) > LONGEST]
    every = [n for lengths in counts.values() for n in lengths]
    if every and sum(every) / len(every) > MEAN:
        wrong.append(f"docs: {sum(every) / len(every):.1f} words a sentence; at most {MEAN}")
    print("\n".join(wrong) or f"no house words in {len(files)} files")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
