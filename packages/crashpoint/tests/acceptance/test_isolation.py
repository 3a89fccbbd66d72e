"""`python -m crashpoint.adversaries.isolation`, as it is typed."""

import os
import subprocess
import sys


def test_passes_as_root_and_is_blocked_otherwise():
    done = subprocess.run(
        [sys.executable, "-m", "crashpoint.adversaries.isolation"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    verdict = done.stdout.splitlines()[-1]
    assert verdict.startswith("PASS: " if os.geteuid() == 0 else "BLOCKED: it needs root")
