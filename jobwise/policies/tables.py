"""Networks over the tables of a world of rows: what those of GPUs and of nodes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.policies.neural import NeuralPolicy, networks_of
from jobwise.worlds.encoder import KEPT, TableEncoder, load_table


@dataclass(frozen=True, eq=False)
class TablePolicy(NeuralPolicy):
    """One network that answers for every part of an action."""

    jobsets = True
    encoders: ClassVar[dict[str, Any]] = {}  # makers by name, of its world

    def made(self, cluster: Cluster) -> TableEncoder:
        """Return the encoder for this cluster. Raises InputError."""
        return load_table(self.encoders, self.metadata, cluster)

    def picker(self, world: Any, encoder: TableEncoder, out: np.ndarray, dice: np.ndarray | None) -> Callable:
        """Return what chooses. Raises InputError where the network does not answer for every part of an action."""
        world.takes(encoder)
        try:
            shape = self.forward(out).shape
        except ValueError as error:
            raise InputError(f"policy {self.name}: its network and its encoder do not go together: {error}") from None
        if shape != (expected := (len(out), *world.action_shape, world.actions)):
            raise InputError(
                f"policy {self.name}: the network gives {list(shape[1:])} scores, this world takes {list(expected[1:])}"
            )
        return super().picker(world, encoder, out, dice)

    def meta(self) -> dict:
        """Return what the policy file tells beside `about`."""
        kept = {k: self.metadata[k] for k in KEPT}
        return {"kind": self.spec, "world": asdict(self.world), "encoder": kept, "networks": [n.spec for n in self.networks]}


def read(make: type[TablePolicy], settings: Any, meta: dict, weights: dict[str, np.ndarray], label: str) -> TablePolicy:
    """Return the policy of a file that has been read; `settings` of its world. Raises KeyError, TypeError, ValueError."""
    about, networks = dict(meta["about"]), networks_of(meta, weights)
    row, encoder = float(about["config"].get("row_s", 1.0)), {k: meta["encoder"][k] for k in KEPT}
    if encoder["name"] not in make.encoders or any(type(encoder[k]) is not kind for k, kind in KEPT.items()):
        raise ValueError(f"no such encoder: {encoder}")
    if encoder["slots"] != settings.slots:
        raise ValueError(f"an encoder of {encoder['slots']} slots in a world of {settings.slots}")
    if not 0 < row < np.inf or len(networks) != 1 or networks[0].kind not in ("slots", "mlp", "pairs"):
        raise ValueError("one network of the kind slots, mlp or pairs and a row of more than 0 s are expected")
    return make(networks, encoder, settings, label, about, True, row)
