"""The command line."""

from jobwise.cli.main import main, run

__all__ = ["main", "run"]
