"""Checkpoints: nested dictionaries of arrays, tensors and numbers in one safetensors file. Reading one never executes
anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from jobwise.errors import InputError
from jobwise.files import write_whole


def write(file: Path, state: dict) -> None:
    """Write a state, whole or not at all."""
    arrays: dict[str, np.ndarray] = {}
    tree = _flatten(state, arrays)
    write_whole(file, save(arrays, {"tree": json.dumps(tree)}))


def read(file: Path) -> dict:
    """The state again; structured arrays come back as bytes. Raises InputError for a damaged file."""
    try:
        with safe_open(file, framework="numpy") as f:
            tree = json.loads(f.metadata()["tree"])
            arrays = {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file}: is damaged: {error}; begin again in another folder") from None
    return _raise(tree, arrays)


def _flatten(x: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Plain values as they are, arrays and tensors as {"array": name} with their bytes in `arrays`."""
    if isinstance(x, dict):
        return {"items": [[k, _flatten(v, arrays)] for k, v in x.items()]}
    if isinstance(x, list | tuple):
        return [_flatten(v, arrays) for v in x]
    if type(x).__module__.partition(".")[0] == "torch":  # known by its name: a search needs no PyTorch
        x = x.detach().cpu().numpy()
    if isinstance(x, np.ndarray):
        name = f"a{len(arrays):05d}"
        arrays[name] = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
        dtype = [list(d) for d in x.dtype.descr] if x.dtype.names else x.dtype.str
        return {"array": name, "shape": list(x.shape), "dtype": None if x.dtype.names else dtype}
    return x.item() if isinstance(x, np.generic) else x


def _raise(x: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The opposite of `_flatten`; structured arrays come back as bytes."""
    if isinstance(x, list):
        return [_raise(v, arrays) for v in x]
    if isinstance(x, dict) and "items" in x:
        return {k: _raise(v, arrays) for k, v in x["items"]}
    if isinstance(x, dict):
        data = arrays[x["array"]]
        return data if x["dtype"] is None else data.view(x["dtype"]).reshape(x["shape"]).copy()
    return x
