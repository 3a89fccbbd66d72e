"""`python -m crashpoint.adversaries.reflexive`, as it is typed."""

import subprocess
import sys


def test_prints_each_attempt_with_its_result():
    done = subprocess.run(
        [sys.executable, "-m", "crashpoint.adversaries.reflexive"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    *lines, blank, summary = done.stdout.splitlines()
    results = [line[:13].strip() for line in lines]
    assert set(results) == {"REFUSED", "HARMLESS", "CAUGHT", "NOT CLAIMED"}
    assert blank == ""
    tried = len(results) - results.count("NOT CLAIMED")
    assert summary.startswith(f"{tried} attempts: {results.count('REFUSED')} REFUSED, ")
    assert summary.endswith("0 FORGED; 8 NOT CLAIMED")
    assert sum("Hide a duplicate behind another process's id" in line for line in lines) == 1
