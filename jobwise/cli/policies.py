"""`jobwise policies`: the names that policies are made of."""

from __future__ import annotations

from jobwise.cli.options import Json
from jobwise.cli.tables import print_json, print_table, say
from jobwise.policies.names import described


def policies(as_json: Json = False) -> None:
    """List the names of schedulers and of their parts.

    Examples:
        jobwise policies
    """
    tables = described()
    if as_json:
        print_json(tables)
        return
    for part, names in tables.items():
        print_table(part, ["name", "what it does"], [[n, text] for n, text in names.items()], left=2)
    say("A policy is ORDER[+BACKFILL][+PLACEMENT][+GUARD], for example saf+easy+guard24h; a run folder stands for an order.")
