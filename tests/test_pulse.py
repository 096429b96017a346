"""The Makefile's installations are never silent for long, and end with the status of the command."""

import subprocess
import sys

import pytest
from conftest import ROOT

TOOL = ROOT / "tools" / "pulse.py"
SLEEPS = "import sys, time; print('begins', flush=True); time.sleep(1.5); print('ends'); sys.exit(3)"


@pytest.mark.cli
def test_a_silent_command_is_said_to_go_on():
    code = f"import runpy, sys; run = runpy.run_path({str(TOOL)!r})['run']; sys.exit(run(sys.argv[1:], 0.2))"
    done = subprocess.run([sys.executable, "-c", code, sys.executable, "-c", SLEEPS], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    pulses = [x for x in lines if x.startswith("... ") and x.endswith(" s")]  # on a busy machine also before it begins
    assert done.returncode == 3 and [x for x in lines if x not in pulses] == ["begins", "ends"]
    assert lines[-1] == "ends" and lines.index("begins") < len(lines) - 2  # a pulse while it is silent
