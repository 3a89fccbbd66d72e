"""Zygotes under other interpreters, in which crashpoint is not installed."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from integration.procs.test_zygote import SUBJECTS, request, result, zygote

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


@cache
def interpreter(version):
    """A Python of that version outside of this environment, or None: from PATH or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    named = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python{version}")]
    for python in map(str, filter(None, named)):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [python, "-c", "import sys; print(sys.version)"],
                capture_output=True,
                text=True,
                check=True,
            )
            if re.match(rf"{re.escape(version)}\.", done.stdout):
                return python
    return None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subject_under(place, bell, version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")

    async def scenario():
        async with zygote(place, python=python) as started:
            subject = await started.fork(request(place, "interpreter"))
            left = await subject.exit()
            await subject.release()
            family = await started.fork(request(place, "family", 1, bell=bell.env["BELL"]))
            for _ in range(2):
                await asyncio.to_thread(bell.wait)
            killed = len(family.kill())
            await family.release()
            return started.facts, left, killed

    facts, left, killed = asyncio.run(scenario())
    assert left.code == 0, (place.out / "subject0.err").read_text()
    told = result(place)
    assert told["client"] == "crashpoint.inside.client"
    assert told["visible"] == []
    assert told["version"].startswith(f"{version}.")
    assert facts["python"].startswith(f"{version}.")
    assert facts["modules"].keys() == {SUBJECTS}
    assert killed == 4


def test_crashpoint_is_not_installed_there():
    python = next(filter(None, map(interpreter, VERSIONS)), None)
    if python is None:
        pytest.skip("no other Python here")
    code = "import importlib.util, json; print(json.dumps(importlib.util.find_spec('crashpoint')))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is None
