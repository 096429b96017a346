"""The manual page, from the command line itself: `python tools/man_page.py` writes man/jobwise.1, which the wheel installs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "man" / "jobwise.1"
FILES = (
    ("~/.cache/jobwise", "compiled kernels and public logs; XDG_CACHE_HOME moves it, NUMBA_CACHE_DIR the kernels alone"),
    ("RUN/policy.safetensors", "a trained policy, in the folder that --out names"),
)
CODES = (
    ("0", "done"),
    ("1", "failed, or not all is well"),
    ("2", "wrong use, or bad input: one line says what"),
    ("130", "interrupted"),
)


def text() -> str:
    """Return the page in the language of man(7)."""
    from jobwise import __version__
    from jobwise.cli.main import app

    lines = [f'.TH JOBWISE 1 "" "jobwise {__version__}" "User Commands"', ".SH NAME"]
    lines += [r"jobwise \- simulate a cluster's scheduler on its own job log, try another one, learn better ones"]
    lines += [".SH SYNOPSIS", ".B jobwise", ".I COMMAND", "[OPTIONS] [ARGUMENTS]", ".SH DESCRIPTION", _plain(app.help)]
    lines += [
        "A scheduler is ORDER[+BACKFILL][+PLACEMENT][+GUARD], as in saf+easy+guard24h; `jobwise policies` lists the parts."
    ]
    lines += [".SH COMMANDS", *_commands(app, "jobwise"), ".SH EXIT STATUS"]
    lines += [x for code, words in CODES for x in (".TP", f".B {code}", words)]
    lines += [".SH FILES", *(x for name, words in FILES for x in (".TP", f".I {name}", words))]
    return "\n".join(lines) + "\n"


def _commands(group: Any, prefix: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")
            continue
        yield from (f".SS {prefix} {name}", _plain(command.help))
        for p in command.params:
            if p.name == "help":
                continue
            argument = p.param_type_name == "argument"
            words = f".I {(p.metavar or p.name).upper()}" if argument else f".B {_plain(', '.join(p.opts + p.secondary_opts))}"
            yield from (".TP", words, _plain(getattr(p, "help", "")) or _plain(p.name.replace("_", " ")))


def _plain(words: str | None) -> str:
    """A paragraph without what man(7) would take for its own."""
    line = re.sub(r"\s+", " ", words or "").strip().replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "'") else line


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text())
    print(f"written: {PAGE}", file=sys.stderr)
