"""What a figure depends on besides the code that made it: source, lock, versions, machine."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import crashpoint
from crashpoint.canonical import digest

__all__ = ["command_line", "context", "source_of", "subject_context"]

PACKAGE: Final = Path(crashpoint.__file__).parent
LOCK_NAME: Final = "requirements.lock"


def command_line(module: str, arguments: Sequence[str]) -> str:
    """The command that anyone can run from the repository's root to do the same."""
    return shlex.join(["python", "-m", module, *map(_relative, arguments)])


def context(package: Path | None = None) -> dict[str, Any]:
    """Source digest and whether it was clean, lock digest, machine, start time (UTC).

    `package` is the folder of what was measured, if that is not crashpoint itself.
    """
    return {
        "crashpoint": crashpoint.__version__,
        "source": source_of(package or PACKAGE),
        "lock": _lock_digest(),
        "machine": {
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)),
            "kernel": platform.release(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def source_of(package: Path) -> dict[str, Any]:
    """Digest of a package's files; commit and cleanliness of its folder where it is in git."""
    return {"digest": _source_digest(package), **_revision(package)}


def subject_context(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a zygote read about itself, without this machine's folders, and whether it is locked.

    What lies in this repository is pinned by its source instead of a version.
    """
    versions = dict(facts["versions"])
    locked = _locked_versions()
    sources = {
        name: source_of(folder)
        for name in sorted(versions)
        if (folder := _in_repository(facts["modules"].get(name))) is not None
    }
    unlocked = sorted(
        name
        for name, version in versions.items()
        if locked.get(name) != version and name not in sources
    )
    modules = {
        name: _without_prefix(path, facts["prefixes"]) for name, path in facts["modules"].items()
    }
    return {
        "python": facts["python"],
        "implementation": facts["implementation"],
        "versions": versions,
        "modules": modules,
        "sources": sources,
        "unlocked": unlocked,
    }


def _relative(argument: str) -> str:
    """The argument, or the value in `--option=VALUE`, without this machine's folders."""
    _, equals, value = argument.partition("=")
    path = value if equals and argument.startswith("--") else argument
    if not Path(path).is_absolute():
        return argument
    return argument.removesuffix(path) + os.path.relpath(path)


def _in_repository(module: str | None) -> Path | None:
    """The folder of a package that lies in this repository and was not installed into it."""
    lock = _lock_file()
    if module is None or lock is None:
        return None
    path = Path(module)
    ours = path.is_relative_to(lock.parent) and "site-packages" not in path.parts
    return path.parent if ours and path.name == "__init__.py" else None


def _source_digest(package: Path) -> str:
    files = sorted(
        path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    return digest(
        {
            path.relative_to(package).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }
    )


def _revision(package: Path) -> dict[str, Any]:
    """Commit and cleanliness of the package's folder, where it lies in a git checkout."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(package), *arguments],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changes = git("status", "--porcelain", "--", ".")
    return {"commit": git("rev-parse", "HEAD"), "clean": None if changes is None else not changes}


def _lock_file() -> Path | None:
    for folder in PACKAGE.parents:
        if (folder / LOCK_NAME).is_file():
            return folder / LOCK_NAME
    return None


def _lock_digest() -> str | None:
    lock = _lock_file()
    return None if lock is None else hashlib.sha256(lock.read_bytes()).hexdigest()


def _locked_versions() -> dict[str, str]:
    lock = _lock_file()
    text = "" if lock is None else lock.read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE))


def _without_prefix(path: str | None, prefixes: Sequence[str]) -> str | None:
    if path is None:
        return None
    for folder, name in ((str(PACKAGE.parent), "{source}"), *((p, "{path}") for p in prefixes)):
        if path.startswith(folder + os.sep):
            return name + path[len(folder) :]
    return Path(path).name


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "unknown"
    names = re.findall(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return names[0].strip() if names else platform.machine()
