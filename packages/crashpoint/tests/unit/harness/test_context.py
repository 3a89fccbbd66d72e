"""What evidence says of the circumstances: enough to repeat it, and no folder of this machine."""

import os
import shlex
import sys
from pathlib import Path

import pytest

import crashpoint
from crashpoint.canonical import canonical
from crashpoint.harness import context as context_module
from crashpoint.harness.context import command_line, context, source_of, subject_context


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (["--k", "3"], "--k 3"),
        (["--out", "out"], "--out out"),
        (["--out", "{here}/out"], "--out out"),
        (["--out={here}/out"], "--out=out"),
        (["--out={here}"], "--out=."),
        (["--out", "{here}/../beside"], "--out ../beside"),
        (["--name=a=b"], "--name=a=b"),
        (["a=/b"], "a=/b"),
        (["--void-max", "0.1"], "--void-max 0.1"),
        (["--name", "two words"], "--name 'two words'"),
        ([], ""),
    ],
)
def test_a_command_without_this_machines_folders(tmp_path, monkeypatch, given, written):
    monkeypatch.chdir(tmp_path)
    filled = [word.replace("{here}", str(tmp_path)) for word in given]
    expected = f"python -m crashpoint.harness.matrix {written}".rstrip()
    assert command_line("crashpoint.harness.matrix", filled) == expected
    assert shlex.split(expected)[3:] == shlex.split(written)


def test_the_context_is_evidence():
    found = context()
    assert found["crashpoint"] == crashpoint.__version__
    assert found["machine"]["cores"] == len(os.sched_getaffinity(0))
    assert found["started"].endswith("+00:00")
    text = canonical(found).decode()
    for folder in (str(Path(crashpoint.__file__).parent), sys.prefix, str(Path.home())):
        assert folder not in text


def test_the_source_digest_follows_the_source(tmp_path):
    def digest():
        return source_of(tmp_path)["digest"]

    (tmp_path / "a.py").write_text("one")
    first = digest()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("cached")
    assert digest() == first
    (tmp_path / "a.py").write_text("two")
    second = digest()
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    third = digest()
    (tmp_path / "template.css").write_text("three")
    assert len({first, second, third, digest()}) == 4


def test_outside_of_a_checkout_cleanliness_is_unknown(tmp_path, monkeypatch):
    def revision():
        found = source_of(tmp_path)
        return found["commit"], found["clean"]

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision() == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision() == (None, None)


def facts(**changed):
    return {
        "python": "3.11.7",
        "implementation": "cpython",
        "versions": {},
        "modules": {},
        "prefixes": ["/env/lib/python3.11/site-packages", "/env"],
        **changed,
    }


def test_modules_are_named_without_their_folders():
    package = Path(crashpoint.__file__).parent
    modules = {
        "ours": str(package / "adapters" / "controls" / "program.py"),
        "theirs": "/env/lib/python3.11/site-packages/langgraph/pregel/__init__.py",
        "loose": "/env/script.py",
        "beside": "/envious/module.py",
        "built": None,
    }
    assert subject_context(facts(modules=modules))["modules"] == {
        "ours": "{source}/crashpoint/adapters/controls/program.py",
        "theirs": "{path}/langgraph/pregel/__init__.py",
        "loose": "{path}/script.py",
        "beside": "module.py",
        "built": None,
    }


@pytest.fixture
def locked(tmp_path, monkeypatch):
    (tmp_path / "requirements.lock").write_text(
        "# made by make lock\n"
        "click==8.5.1 \\\n    --hash=sha256:00\n"
        "langgraph==1.2.3 ; python_version < '4' \\\n    --hash=sha256:01\n"
    )
    monkeypatch.setattr(context_module, "PACKAGE", tmp_path / "packages" / "src")


@pytest.mark.parametrize(
    ("versions", "unlocked"),
    [
        ({"langgraph": "1.2.3", "click": "8.5.1"}, []),
        ({"langgraph": "1.2.4", "click": "8.5.1"}, ["langgraph"]),
        ({"langgraph": "1.2.4", "other": "1"}, ["langgraph", "other"]),
        ({}, []),
    ],
)
def test_versions_other_than_the_locks_are_named(locked, versions, unlocked):
    assert subject_context(facts(versions=versions))["unlocked"] == unlocked


def test_a_package_of_this_repository_is_pinned_by_its_source(locked, tmp_path):
    versions = {"mine": "0.1", "theirs": "0.2", "elsewhere": "0.3"}
    package = tmp_path / "packages" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    modules = {
        "mine": str(package / "__init__.py"),
        "theirs": str(tmp_path / ".venv" / "lib" / "site-packages" / "theirs" / "__init__.py"),
        "elsewhere": str(tmp_path.parent / "elsewhere" / "__init__.py"),
    }
    found = subject_context(facts(versions=versions, modules=modules))
    assert found["sources"] == {"mine": source_of(package)}
    assert found["unlocked"] == ["elsewhere", "theirs"]


def test_without_a_lock_everything_is_unlocked(tmp_path, monkeypatch):
    monkeypatch.setattr(context_module, "PACKAGE", tmp_path)
    assert subject_context(facts(versions={"click": "8.5.1"}))["unlocked"] == ["click"]
    assert context_module._lock_digest() is None
