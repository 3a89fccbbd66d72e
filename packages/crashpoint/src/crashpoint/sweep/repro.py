"""Files that run exactly one scenario of one job again: exit 1 if it still fails, 0 if it is fixed.

A file names the job by where it lies, relative to the file itself, so that a folder can be handed
on as a whole. `run_test` and `run_job` are what such a file calls.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crashpoint.pipeline.evidence import write_atomically
from crashpoint.sweep.words import SweepFault

__all__ = ["run_job", "run_test", "write_job", "write_test"]

EXIT_CANNOT: Final = 3
"""The scenario could not be run again: the program has changed, or does not start."""

FILE: Final = '''"""One crash scenario, once more. Needs crashpoint{needs}.

Exit status: 0 it is fixed, 1 it still fails, 3 it cannot be run again.
"""

import sys
from pathlib import Path

from crashpoint.sweep.repro import {function}

SCENARIO = {scenario!r}
{constant} = {job}

if __name__ == "__main__":
    sys.exit({function}({constant}, scenario=SCENARIO, folder={folder}))
'''


def write_test(path: Path, command: str, scenario: str) -> None:
    """Write a file that runs a scenario of a test's sweep; `command` runs that test from here."""
    _write(
        path,
        needs=" and pytest",
        function="run_test",
        constant="TEST",
        job=repr(shlex.split(command)[1:]),
        scenario=scenario,
    )


def write_job(path: Path, settings: Mapping[str, Any], scenario: str) -> None:
    """Write a file that runs a scenario of a job; `settings` are `cli.Settings` as JSON values."""
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in settings.items())
    _write(
        path,
        needs="",
        function="run_job",
        constant="JOB",
        job=f"{{\n{lines}}}",
        scenario=scenario,
    )


def run_test(arguments: list[str], *, scenario: str, folder: Path) -> int:
    """Run the scenario with pytest from the folder; returns the exit status."""
    import pytest

    os.chdir(folder)
    plugin = _Cannot()
    quiet = ["-q", "--no-header", "-Wignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*arguments, f"--crash-only={scenario}", *quiet], [plugin])
    if code == pytest.ExitCode.OK:
        return 0
    return 1 if code == pytest.ExitCode.TESTS_FAILED and not plugin.seen else EXIT_CANNOT


def run_job(settings: Mapping[str, Any], *, scenario: str, folder: Path) -> int:
    """Run the scenario of a job, print its story; returns the exit status."""
    from crashpoint.sweep.cli import Settings, run_only

    os.chdir(folder)
    try:
        return run_only(Settings(**settings), scenario)
    except SweepFault as fault:
        sys.stderr.write(f"{fault}\n")
        return EXIT_CANNOT


class _Cannot:
    """Notices that the test failed because there was nothing to run."""

    seen = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and str(report.longrepr).startswith("crash_sweep: "):
            self.seen = True


def _write(path: Path, **parts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, FILE.format(**parts, folder=_folder_from(path)).encode())


def _folder_from(path: Path) -> str:
    """The current folder as an expression, seen from the file; whole if that lies elsewhere."""
    here, there = Path.cwd().resolve(), path.resolve().parent
    if not there.is_relative_to(here):
        return f"Path({str(here)!r})"
    return f"Path(__file__).resolve().parents[{len(there.relative_to(here).parts)}]"
