"""Commands that are imported when they run: `jobwise --help` reads their help from their source."""

from __future__ import annotations

import ast
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from jobwise import extensions
from jobwise.cli.help import Command
from jobwise.extensions import imported


class Later(Command):
    """A command whose function is at `where`, "module:name"; `package`: it is of another package, and may not load."""

    def __init__(self, name: str, where: str, package: bool = False):
        self.where, self.package = where, package
        super().__init__(name=name)

    @cached_property
    def real(self) -> Any:
        """The command itself, imported. Raises InputError for one of another package that does not load."""
        name = str(self.name)
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name, cls=Command)(extensions.load("jobwise.commands", name) if self.package else imported(self.where))
        return typer.main.get_command(app)

    @property
    def help(self) -> str:
        """The docstring of the function; that it does not load, where its source is not found."""
        module, _, name = self.where.partition(":")
        try:
            spec = find_spec(module)
            tree = ast.parse(Path(str(spec and spec.origin)).read_text())
        except (ImportError, OSError, ValueError, SyntaxError):
            return "Say why this command of another package does not load."
        functions = (x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == name)
        return next((ast.get_docstring(x) or "" for x in functions), "")

    @help.setter
    def help(self, value: str | None) -> None:
        """Ignore what the parser sets: the source has the help."""

    @property
    def params(self) -> list:
        """The options and arguments of the command."""
        return self.real.params

    @params.setter
    def params(self, value: list) -> None:
        """Ignore what the parser sets: the function has the options."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Return the context of the command itself, which runs from here on."""
        return self.real.make_context(*arguments, **settings)
