"""Commands in containers, by the program for it that is installed: apptainer, singularity, podman or Charliecloud.

A command sees the folder of its task and the files of its inputs at the paths that they have outside, and what the image has.
The program is looked for where the workflow is followed; the nodes must have it, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


def _apptainer(image: str, folder: str, binds: Sequence[str], gpus: int) -> list[str]:
    places = [w for p in binds for w in ("--bind", f"{p}:{p}")]
    own = image if "://" in image or image.startswith("/") else f"docker://{image}"
    return ["exec", *(["--nv"] if gpus else []), *places, "--pwd", folder, own]


def _podman(image: str, folder: str, binds: Sequence[str], gpus: int) -> list[str]:
    places = [w for p in binds for w in ("--volume", f"{p}:{p}")]
    cards = ["--device", "nvidia.com/gpu=all"] if gpus else []
    return ["run", "--rm", "--interactive", "--userns=keep-id", *cards, *places, "--workdir", folder, image]


def _charliecloud(image: str, folder: str, binds: Sequence[str], gpus: int) -> list[str]:
    return [*(w for p in binds for w in ("--bind", f"{p}:{p}")), "--cd", folder, image, "--"]


RUNTIMES: dict[str, Callable[[str, str, Sequence[str], int], list[str]]] = {  # the first that is installed is taken
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "podman": _podman,
    "ch-run": _charliecloud,
}


def runtime() -> str:
    """The program that runs containers here; "" where there is none."""
    return next((name for name in RUNTIMES if shutil.which(name)), "")


def inside(
    program: str, image: str, command: Sequence[str], folder: str, files: Iterable[str], environment: dict[str, str], gpus: int
) -> list[str]:
    """Return the words that run a command in a container of `image`, in `folder`, with its environment; it sees what is beside
    that folder, and `files` where they really are."""
    own = Path(folder).absolute().parent
    places = {str(own), str(own.resolve()), *(str(Path(x).resolve()) for x in files)}
    binds = [p for p in sorted(places) if not any(q != p and Path(p).is_relative_to(q) for q in places)]
    values = [f"{k}={v}" for k, v in sorted(environment.items())]
    return [program, *RUNTIMES[program](image, folder, binds, gpus), *(["env", *values] if values else []), *command]
