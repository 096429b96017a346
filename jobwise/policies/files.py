"""Policy files: safetensors with the weights, and as metadata one JSON text. Reading one never executes anything."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from jobwise.errors import InputError
from jobwise.files import write_whole

FORMAT = "jobwise policy 1"
KEY = "jobwise"  # of the metadata


def write(path: str | Path, meta: dict, weights: dict[str, np.ndarray]) -> None:
    """Write a policy file, whole or not at all: `meta` and the weights by name."""
    text = json.dumps({"format": FORMAT} | meta)
    write_whole(path, save({k: np.ascontiguousarray(v) for k, v in weights.items()}, {KEY: text}))


def read(path: str | Path) -> tuple[dict, dict[str, np.ndarray], str, Path]:
    """(metadata, weights by name, label, the file) of a policy file or of the run folder that holds it.

    Raises InputError for anything that is no policy of ours.
    """
    path = Path(path)
    file = path / "policy.safetensors" if path.is_dir() else path
    if not file.is_file():
        if (path / "run.json").is_file() or (path / "seed0" / "run.json").is_file():
            raise InputError(f"{path}: its training has not ended; the command that began it goes on with --resume")
        raise InputError(f"{path}: there is no policy file; a run folder holds policy.safetensors once it is trained")
    try:
        with safe_open(file, framework="numpy") as f:
            text = (f.metadata() or {}).get(KEY)
            weights = {k: f.get_tensor(k) for k in f.keys()} if text else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: is no policy file, or a damaged one: {error}") from None
    if not text:
        raise InputError(f"{file}: a safetensors file of somebody else; policies carry the metadata {KEY!r}")
    try:
        meta = json.loads(text)
        if meta["format"] != FORMAT:
            raise InputError(f"{file}: its format is {meta['format']!r}; this version reads {FORMAT!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: its metadata are damaged: {type(error).__name__}: {error}") from None
    label = path.name if path.is_dir() else (path.parent.name if path.name == "policy.safetensors" else path.stem)
    return meta, weights, label or "policy", file


def sketches(about: dict) -> list[list[str]]:
    """The sketches of what a policy was trained on, by what its file says `about` it (`trained_on`: one, or several)."""
    sketch = about.get("trained_on") or []
    return sketch if sketch and isinstance(sketch[0], list) else [sketch] if sketch else []


def short(about: dict) -> str:
    """Return what must be said of a policy that was trained for a short time, by what its file says `about` it; else ""."""
    config = about.get("config")
    preset = config.get("preset") if isinstance(config, dict) else about.get("preset")
    return {
        "smoke": "was trained with preset smoke, for seconds: its numbers say nothing of the method",
        "small": "was trained with preset small, for minutes: longer training (preset paper) may change its numbers",
    }.get(str(preset), "")
