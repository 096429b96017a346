"""An image of jobwise, built and tried where there is no engine and no registry of images.

python tools/image.py [--out build/image/jobwise.tar] [--extras '[learn]']        as root, with Debian's debootstrap and buildah

debootstrap makes a small Debian with Python from Debian's packages; buildah builds the Containerfile on it, and writes an OCI
archive (`podman load --input`, `apptainer build jobwise.sif oci-archive:…`). Then the image is run: it prints its size, and how
long its first answer takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
BASE, IMAGE = "localhost/jobwise-base", "localhost/jobwise"
SETTINGS = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}  # what works without an engine
LENT = ("/etc/ssl/certs", "/etc/pip.conf")  # of this machine, while it is built: how pip reaches its index
LOG, ANSWER = "jobwise trace generate log.swf --jobs 5000", "jobwise compare log.swf -p fcfs+easy -p saf+easy"


def run(*words: object) -> str:
    """Return what a command prints. Raises SystemExit where it fails."""
    command = [str(x) for x in words]
    try:
        done = subprocess.run(command, env=os.environ | SETTINGS, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SystemExit(f"image: {command[0]}: {error.strerror}; debootstrap and buildah of Debian are needed") from None
    if done.returncode:
        raise SystemExit(f"image: {' '.join(command[:3])} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout.strip()


def base(folder: Path) -> None:
    """Make an image of a small Debian with Python, once, in an empty folder."""
    if BASE in run("buildah", "images", "--format", "{{.Name}}").split():
        return
    print("image: a Debian with Python, by debootstrap", file=sys.stderr)
    run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", SUITE, folder, MIRROR)
    for name in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(folder / name, ignore_errors=True)
    box = run("buildah", "from", "scratch")
    run("buildah", "copy", "--quiet", box, folder, "/")
    run("buildah", "commit", "--quiet", box, BASE)
    run("buildah", "rm", box)


def main() -> None:
    """Build the image, write it, and try it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "image" / "jobwise.tar", help="the OCI archive")
    parser.add_argument("--extras", default="", help="[learn]: with PyTorch")
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jobwise-debian-") as folder:
        base(Path(folder))
    print("image: the Containerfile, by buildah; kernels are compiled", file=sys.stderr)
    lent = [x for path in LENT if Path(path).exists() for x in ("--volume", f"{path}:{path}:ro")]
    arguments = ["--build-arg", f"BASE={BASE}", "--build-arg", f"EXTRAS={asked.extras}"]
    run("buildah", "build", "--network", "host", *lent, *arguments, "--tag", IMAGE, ROOT)
    fresh = asked.out.with_name(f"{asked.out.name}.{os.getpid()}")
    run("buildah", "push", "--quiet", IMAGE, f"oci-archive:{fresh}:jobwise")
    os.replace(fresh, asked.out)
    box = run("buildah", "from", f"oci-archive:{asked.out}")
    version = run("buildah", "run", box, "--", "jobwise", "--version")
    run("buildah", "run", box, "--", *LOG.split())
    begun = time.perf_counter()
    run("buildah", "run", box, "--", *ANSWER.split())
    seconds = time.perf_counter() - begun
    run("buildah", "rm", box)
    size = run("buildah", "images", "--format", "{{.Size}}", IMAGE)
    print(f"{version}: {asked.out}, {asked.out.stat().st_size / 1e6:,.0f} MB, unpacked {size}")
    print(f"first answer after {seconds:.1f} s: {ANSWER} (5,000 jobs)")


if __name__ == "__main__":
    main()
