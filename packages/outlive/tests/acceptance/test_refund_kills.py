"""The refund workflow killed at everything that happens: what README says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("options", "trials"),
    [
        (["--payee", "keyed"], 28),
        (["--payee", "keyless", "--target", "worker"], 7),
    ],
)
def test_one_refund_where_keys_are_honoured_and_two_only_while_a_request_is_out(options, trials):
    command = [sys.executable, "benchmarks/refund_kills.py", "--k", "1", *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line for line in done.stdout.splitlines() if " requests, " in line]
    assert len(found) == trials
    if "keyless" in options:
        twice = [line for line in found if "2 refunds" in line]
        assert [line[28:45].strip() for line in twice] == ["request arrived", "refund made"]
