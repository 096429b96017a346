"""The help of commands: what a command does, its options by group, two examples. Plain text as wide as the terminal."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

NARROW, WIDEST, ROOM = 40, 100, 24  # letters: least and most of a line; of a name and the space behind it
EXAMPLES = "Examples:"  # the paragraph of a docstring that holds them, a command a line


def parted(docstring: str | None) -> tuple[str, list[str]]:
    """(what a docstring says, its examples)."""
    text, _, examples = inspect.cleandoc(docstring or "").partition(f"\n{EXAMPLES}\n")
    return text.strip(), [x.strip() for x in examples.splitlines() if x.strip()]


def first(docstring: str | None) -> str:
    """The first sentence of a docstring."""
    return re.split(r"(?<=[.?!]) ", " ".join(parted(docstring)[0].split("\n\n")[0].split()))[0]


def in_columns(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Lines of names, each with its text beside it."""
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(width - ROOM, NARROW), break_long_words=False, break_on_hyphens=False) or [""]
        head = [f"  {name}"] if len(name) + 4 > ROOM else []
        lines += [*head, f"{'' if head else f'  {name}':<{ROOM}}{wrapped[0]}".rstrip(), *(" " * ROOM + x for x in wrapped[1:])]
    return lines


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, WIDEST)


def _option(p: Any) -> str:
    """The spelling of an option, with what stands for its value."""
    kind = getattr(p.type_descriptor.annotation, "__name__", "")
    value = "" if p.is_flag else " " + (p.metavar or {"int": "N", "float": "X"}.get(kind, p.name.rpartition("_")[2].upper()))
    return ", ".join(sorted([*p.opts, *p.secondary_opts], key=len)) + value


def _text(p: Any) -> str:
    """What a parameter is, and its default."""
    plain = isinstance(p.default, int | float | str) and not isinstance(p.default, bool)
    value = p.default if plain and p.default != "" and p.param_type_name == "option" else None
    default = p.show_default if isinstance(p.show_default, str) else value if p.show_default else None
    text = f"{default:g}" if isinstance(default, float) else default
    return f"{p.help or p.name.replace('_', ' ')}{'' if default is None else f' [default: {text}]'}"


class Command(typer.core.TyperCommand):
    """A command whose help is text: no types, options by group, examples."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command."""
        width, (text, examples) = _width(), parted(self.help)
        usage = " ".join([ctx.command_path, "[OPTIONS]", *(self._argument(p) for p in self._of("argument"))])
        lines = [f"Usage: {usage}", ""]
        for part in text.split("\n\n"):
            lines += [*textwrap.wrap(" ".join(part.split()), width, break_on_hyphens=False), ""]
        if arguments := [(self._argument(p), _text(p)) for p in self._of("argument")]:
            lines += ["Arguments:", *in_columns(arguments, width), ""]
        for panel in dict.fromkeys(p.rich_help_panel or "Options" for p in self._of("option")):
            rows = [(_option(p), _text(p)) for p in self._of("option") if (p.rich_help_panel or "Options") == panel]
            lines += [f"{panel}:", *in_columns(rows, width)]
        formatter.write("\n".join([*lines, "", *shown(examples), ""]))

    def _of(self, kind: str) -> list[Any]:
        return [p for p in self.params if p.param_type_name == kind and not getattr(p, "hidden", False) and p.name != "help"]

    def _argument(self, p: Any) -> str:
        name = (p.metavar or p.name.upper()) + "..." * (p.nargs != 1 and "..." not in (p.metavar or ""))
        return name if p.required or name.startswith("[") else f"[{name}]"


def shown(examples: Sequence[str]) -> list[str]:
    """Return the paragraph of examples, as lines."""
    return [EXAMPLES, *(f"  {x}" for x in examples)] if examples else []


class CommandGroup(typer.core.TyperGroup):
    """A group of commands, or all of them: by `sections`, title -> names; what is in none stands at the end."""

    sections: Mapping[str, Sequence[str]] = {}
    begin: Sequence[str] = ()  # where to begin, a command a line

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the group."""
        width, known = _width(), {n for names in self.sections.values() for n in names}
        rest = [n for n in self.commands if n not in known]
        text, examples = parted(self.help)
        lines = [f"Usage: {ctx.command_path} COMMAND", "", *textwrap.wrap(" ".join(text.split()), width), ""]
        if self.begin:
            lines += ["Begin here:", *(f"  {x}" for x in self.begin), ""]
        for title, names in (*self.sections.items(), ("Commands" if not known else "Of other packages", rest)):
            if there := [n for n in names if n in self.commands]:
                lines += [f"{title}:", *in_columns([(n, first(self.commands[n].help)) for n in there], width)]
        lines.append("")
        end = [f"{ctx.command_path} COMMAND --help says more."] if not examples else shown(examples)
        formatter.write("\n".join([*lines, *end, ""]))
