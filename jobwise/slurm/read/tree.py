"""Switches of a site: `scontrol show topology`, or a topology.conf."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.site import Site
from jobwise.slurm.read.text import nodes, records, said
from jobwise.slurm.read.unsimulated import UNSIMULATED

FIRST = "SwitchName"


def has_tree(known: dict[str, str]) -> bool:
    """Does a configuration have switches count?"""
    return known.get("topologyplugin", "").lower().endswith("/tree")


def with_switches(site: Site, text: str, known: dict[str, str]) -> tuple[Site, list[str]]:
    """(the site with its switches, what is not simulated or had to be guessed). `text` of the switches, `known`: the
    configuration. Raises ValueError, KeyError."""
    if not has_tree(known):
        return site, []
    parameters = known.get("topologyparam", "")
    words = [x for x in parameters.split(",") if x.strip().lower() in ("dragonfly", "switchasnoderank")]
    notes = [f"{UNSIMULATED}{x} of TopologyParam" for x in words]
    if not (rows := records("\n".join(x.strip() for x in text.splitlines()), FIRST)):
        return site, [*notes, "no scontrol_topology: nodes are chosen as if there were no switches"]
    if len({r[FIRST] for r in rows}) < len(rows):
        raise ValueError("a switch is named twice; one tree is expected")
    number, place = {r[FIRST]: i for i, r in enumerate(rows)}, {n: i for i, n in enumerate(site.names)}
    parent = np.arange(len(rows))
    below = np.zeros((len(rows), len(site.names)), np.uint8)
    for i, r in enumerate(rows):
        below[i, [place[n] for n in nodes(said(r.get("Nodes", ""))) if n in place]] = 1
        for name in nodes(said(r.get("Switches", ""))):
            if name not in number:
                raise ValueError(f"switch {r[FIRST]} has a switch {name}, which is not there")
            parent[number[name]] = i
    for i in range(len(rows)):  # topology.conf names the nodes of leaves alone
        way, k = {i}, int(parent[i])
        while k not in way:
            below[k] |= below[i]
            way.add(k)
            k = int(parent[k])
        if k != parent[k]:
            raise ValueError(f"switch {rows[k][FIRST]} is above itself")
    if len(lost := np.flatnonzero(below.max(axis=0) == 0)):
        notes.append(f"{len(lost)} nodes are on no switch (e.g. {site.names[lost[0]]}): jobs do not get them")
    settings = site.settings.copy()
    settings["topo_optional"] = "topooptional" in parameters.lower()
    return replace(site, switches=below, switch_parent=parent, settings=settings), notes
