"""The image is built from Debian's packages, and answers. Slow, and for root where Debian's debootstrap and buildah are."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.slow
def test_an_image_is_built_and_answers(tmp_path):
    if os.geteuid() or not all(map(shutil.which, ("debootstrap", "buildah"))):
        pytest.skip("no root, no debootstrap or no buildah here")
    command = [sys.executable, str(ROOT / "tools" / "image.py"), "--out", str(tmp_path / "jobwise.tar")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"jobwise\.tar, \d+ MB", done.stdout) and re.search(r"first answer after \d+\.\d s", done.stdout)
    assert (tmp_path / "jobwise.tar").stat().st_size > 10**8
