"""The probe under another uid: PASS as root only, for real; FAIL as soon as one try succeeds."""

import copy
import os
import tempfile
from pathlib import Path

import pytest

from crashpoint.adversaries import intruder, isolation
from crashpoint.ledger.control import Ledger
from crashpoint.pipeline.evidence import EvidenceFault, fault_in_closing, read_document

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another uid needs root")


@pytest.fixture
def document(tmp_path, capsys):
    assert isolation.main(["--name", "probe", "--out", str(tmp_path / "evidence")]) == 0
    capsys.readouterr()
    return read_document(tmp_path / "evidence" / "probe.json")


def test_as_root_it_passes_and_prints_each_try(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isolation.main([]) == 0
    *tries, verdict = capsys.readouterr().out.splitlines()
    assert verdict == f"PASS: {len(tries)} tries, none succeeded; one effect, EXACTLY_ONCE"
    assert {line.split()[0] for line in tries} <= isolation.REFUSALS
    for what in ("read the ledger's file", "connect to witness.sock", "unlink invoke.sock"):
        assert f"EACCES     {what}" in tries
    for what in ("send SIGKILL to the daemon", "attach to the daemon", "set uid 0"):
        assert f"EPERM      {what}" in tries
    assert list(tmp_path.iterdir()) == [], "no receipt without a name"


def test_the_receipt_can_be_checked_again(document):
    assert document["format"] == isolation.FORMAT
    assert fault_in_closing(document) is None
    assert isolation.check(document).endswith("tries of uid 65534, none succeeded")
    assert document["replaces"] is None
    assert document["machine"]["system"] == "Linux"


def test_a_receipt_says_what_it_replaces(document, tmp_path, capsys):
    assert isolation.main(["--name", "probe", "--out", str(tmp_path / "evidence")]) == 0
    capsys.readouterr()
    again = read_document(tmp_path / "evidence" / "probe.json")
    assert again["replaces"] == document["receipt"]


def altered(document, change):
    document = copy.deepcopy(document)
    change(document)
    return document


def chmod(document):
    document["intruder"]["met"]["read the ledger's file"] = None


def no_file(document):
    document["intruder"]["met"]["read the ledger's file"] = "ENOENT"


def fewer(document):
    met = document["intruder"]["met"]
    document["intruder"]["met"] = dict(list(met.items())[:10])


def no_effect(document):
    document["intruder"]["effect"] = {"error": "no open trial"}


def other_uid(document):
    document["intruder"]["uids"] = [0, 65534, 65534]


def still_root(document):
    document["uid"] = 0
    document["intruder"]["uids"] = [0, 0, 0]


def other_process(document):
    document["intruder"]["pid"] += 1


def other_record(document):
    document["trial"]["records"][1]["peer"]["uid"] = 0


def no_tail(document):
    document["trial"]["records"].pop()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (chmod, "uid 65534 could read the ledger's file"),
        (no_file, "read the ledger's file: ENOENT shows nothing"),
        (fewer, "only 10 tries were made"),
        (no_effect, "the effect did not get through: no open trial"),
        (other_uid, "did not become uid 65534"),
        (still_root, "did not become uid 0"),
        (other_process, "the effect is uid 65534's, process"),
        (other_record, "the effect came to VOID: record 1: content does not match its hash"),
        (no_tail, "the effect came to VOID: the chain has 2 records, the controller knows 3"),
    ],
)
def test_a_receipt_that_was_altered_shows_nothing(document, change, said):
    forged = altered(document, change)
    with pytest.raises(EvidenceFault, match=said):
        isolation.check(forged)
    assert fault_in_closing(forged) is not None


def loosened(monkeypatch, loosen):
    real = isolation._reachable

    def reachable(folder):
        sockets, book = real(folder)
        loosen(folder.path, sockets, book)
        return sockets, book

    monkeypatch.setattr(isolation, "_reachable", reachable)


@pytest.mark.parametrize(
    ("loosen", "said"),
    [
        (lambda _folder, _sockets, book: book.chmod(0o755), "could list the ledger's folder"),
        (lambda _folder, sockets, _book: sockets.chmod(0o733), "could unlink invoke.sock"),
        (lambda _folder, sockets, _book: sockets.chmod(0o755), "could list the sockets' folder"),
        (lambda folder, _sockets, _book: folder.chmod(0o755), "could list the run's folder"),
        (lambda folder, _sockets, _book: folder.chmod(0o700), "the effect did not get through"),
    ],
)
def test_a_permission_too_many_is_a_fail_and_no_receipt(
    capsys, tmp_path, monkeypatch, loosen, said
):
    loosened(monkeypatch, loosen)
    assert isolation.main(["--name", "probe", "--out", str(tmp_path)]) == 1
    verdicts = [line for line in capsys.readouterr().out.splitlines() if "FAIL" in line]
    assert len(verdicts) == 1
    assert said in verdicts[0]
    assert list(tmp_path.iterdir()) == []


def test_an_intruder_that_kept_root_is_a_fail(capsys, tmp_path, monkeypatch):
    code = tmp_path / "intruder.py"
    source = Path(intruder.__file__).read_text()
    source = source.replace("os.setresuid(uid, uid, uid)", "os.setresuid(uid, uid, 0)")
    code.write_text(source)
    monkeypatch.setattr(intruder, "__file__", str(code))
    assert isolation.main([]) == 1
    assert "FAIL: the intruder did not become uid 65534" in capsys.readouterr().out


def test_a_folder_that_others_cannot_pass_is_one_line(capsys, monkeypatch):
    with tempfile.TemporaryDirectory() as own:  # a short path, for the sockets
        monkeypatch.setenv("TMPDIR", own)
        assert isolation.main([]) == 2
        assert list(Path(own).iterdir()) == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "uid 65534 cannot pass" in said


def as_nobody(arguments, said):
    """Exit code and output of main in a process that is not root. It executes nothing."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        code = 70
        try:
            with os.fdopen(1, "w") as out:
                isolation.print = lambda *words: out.write(" ".join(words) + "\n")
                code = isolation.main(arguments)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text()


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--require"], 3)])
def test_without_root_it_is_blocked_and_never_passes(tmp_path, arguments, code):
    said = "BLOCKED: it needs root to start a process of another uid, this is uid 65534\n"
    assert as_nobody(arguments, tmp_path / "said") == (code, said)


def test_a_name_with_a_path_in_it_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as leave:
        isolation.main(["--name", "../x"])
    assert leave.value.code == 2
    assert "is no name" in capsys.readouterr().err


def test_a_ledger_that_does_not_come_up_is_one_line(capsys, monkeypatch):
    real = Ledger.start.__func__

    async def start(cls, book, sockets, **options):
        return await real(cls, book, sockets / "nowhere", **options)

    monkeypatch.setattr(Ledger, "start", classmethod(start))
    assert isolation.main([]) == 2
    assert capsys.readouterr().err.startswith("crashpoint: crashpoint ledger: cannot listen on")
