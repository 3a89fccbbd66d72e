"""What the bench itself needs goes away in the middle of a run: one line, exit code, no loss."""

import json
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from acceptance.runs import BROKEN, OLD, Run
from crashpoint.harness.matrix import command
from crashpoint.harness.verify import verify
from events import Bell, whole_lines
from leftovers import nothing_left

LONG = ("--k", "5000", "--runtimes", "r_dup,r_idem", "--barriers", "b1", "--cold", "0")
SHORT = ("--k", "1", "--runtimes", "r_dup", "--barriers", "b1")


@pytest.fixture
def place():
    with nothing_left() as place:
        yield place


@pytest.fixture
def bell(place):
    bell = Bell(place.out.parent / "bell")
    yield bell
    bell.close()


def test_the_ledger_is_killed(place):
    run = Run(place, *LONG)
    whole_lines(run.sealed, 6)
    os.kill(place.process("crashpoint.ledger.daemon"), signal.SIGKILL)
    run.end()
    sealed = run.sealed_trials()
    assert run.code == 3
    assert run.said().startswith("Error: the ledger died")
    assert run.said().endswith(f"; {sealed + 2} sealed trials are kept in {run.sealed}")
    assert sealed >= 3
    assert run.kept_the_old_evidence()


def test_a_zygote_is_killed(place, bell):
    rows = ("--rows", "well,rings", "--k", "2", "--jobs", "1")
    run = Run(place, *rows, command=BROKEN, bell=bell)
    rung = bell.wait()
    os.kill(_parent(_parent(rung.pid)), signal.SIGKILL)
    rung.let_go()
    run.end()
    document = json.loads(run.evidence.read_bytes())
    assert run.code == 3
    assert verify(run.evidence).says == "4 trials, fault kill, exit 3"
    # The first process under way went on, because its keeper lives; nothing was forked after it.
    assert [(t["trial"], t["verdict"].get("void", "")[:30]) for t in document["trials"]] == [
        ("well.b1.0000", ""),
        ("well.b1.0001", "the bench: the zygote is gone:"),
        ("rings.b1.0000", "the bench: the zygote is gone:"),
        ("rings.b1.0001", "the bench: the zygote is gone:"),
    ]


def test_a_keeper_is_killed(place, bell):
    rows = ("--rows", "well,rings", "--jobs", "1")
    run = Run(place, *rows, command=BROKEN, bell=bell)
    rung = bell.wait()
    os.kill(_parent(rung.pid), signal.SIGKILL)
    run.end()
    document = json.loads(run.evidence.read_bytes())
    assert run.code == 3
    assert {t["row"]: t["verdict"].get("void") for t in document["trials"]} == {
        "well": None,
        "rings": "the bench: the keeper of a subject died",
    }


def test_a_second_run_under_one_name(place, bell):
    first = Run(place, "--rows", "well,rings", "--jobs", "1", command=BROKEN, bell=bell)
    rung = bell.wait()
    whole_lines(first.sealed, 1)
    second = Run(place, *SHORT)
    second.end()
    assert second.code == 2
    assert second.said() == (
        f"Error: another run is writing {first.evidence}; wait for it or choose another --name"
    )
    rung.let_go()
    first.end()
    assert first.code == 0
    assert verify(first.evidence).says == "2 trials, fault kill, exit 0"


@contextmanager
def small_disk(folder, size):
    """A file system of that size at the folder."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "crashpoint-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_disk_of_the_evidence_is_full(place):
    with small_disk(place.out, "128k"):
        run = Run(place, *LONG)
        run.end()
        assert run.code == 3
        assert run.said().startswith(f"Error: cannot write {place.out}: No space left on device; ")
        assert run.sealed_trials() >= 3
        assert run.kept_the_old_evidence()
        assert run.files() == ["m.json", "m.partial.jsonl"]


def test_the_disk_of_the_evidence_is_full_from_the_beginning(place):
    with small_disk(place.out, "4k"):  # what the old file takes
        run = Run(place, *SHORT)
        run.end()
        assert run.code == 3
        assert run.said() == f"Error: cannot write {place.out}: No space left on device"
        assert run.kept_the_old_evidence()
        assert run.files() == ["m.json"]


def test_the_disk_of_the_ledger_is_full(place):
    with small_disk(place.tmp, "400k"):
        run = Run(place, *LONG)
        run.end()
        assert run.code == 3
        assert "No space left on device" in run.said()
        assert run.sealed_trials() >= 3
        assert run.kept_the_old_evidence()
        assert place.left() == []


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted outside of the trials\n"),
        (OSError(28, "No space left on device", "m.png"), 3, "Error: cannot write m.png: No space"),
    ],
)
def test_what_is_measured_is_kept_when_it_cannot_be_drawn(place, monkeypatch, failure, code, says):
    def publish(document, out):
        raise failure

    monkeypatch.setattr("crashpoint.report.publish.publish", publish)
    monkeypatch.setenv("TMPDIR", str(place.tmp))
    out = ("--out", str(place.out), "--name", "m")
    done = CliRunner().invoke(command, [*SHORT, *out])
    assert done.exit_code == code
    assert says in done.stderr
    assert "1 trial" in done.stdout
    assert [path.name for path in place.out.iterdir()] == ["m.json"]
    assert verify(place.out / "m.json").says == "1 trials, fault kill, exit 0"


def test_a_complete_run_names_what_it_replaces(place):
    found = []
    for old in (OLD, None):
        run = Run(place, *SHORT, old=old)
        run.end()
        assert run.code == 0
        found.append(json.loads(run.evidence.read_bytes()))
        assert run.files() == ["m.html", "m.json", "m.png", "m.svg"]
    assert [document["replaces"] for document in found] == [None, found[0]["receipt"]]


def _parent(pid):
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    return int(stat.rpartition(")")[2].split()[1])
