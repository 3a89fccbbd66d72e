"""The receiver's process: its front for HTTP, its start and its end."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from conformance.receivers.bench import DEADLINE_S, bench
from conformance.receivers.calls import MAKES, made
from crashpoint.receivers.client import (
    HttpTransport,
    Person,
    ReceiverDown,
    ReceiverRefused,
    ReceiverTimeout,
    SocketTransport,
    Tracker,
)
from crashpoint.receivers.dialect import KEYED, KEYED_CHECKED, LOOKUP
from crashpoint.receivers.host import HostFault
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.receivers.server import EXIT_LEDGER, REQUEST_MAX, main
from crashpoint.receivers.witness import Witness


@pytest.fixture
def tracker(the_bench):
    trial = the_bench.trial()
    with the_bench.host("tracker", trial) as host:
        host.trial = trial
        yield host


def place(host):
    """Where it listens, as host and port, and its trial's path."""
    url = urlsplit(host.url)
    return (url.hostname, url.port), url.path


def http(host, method, path, body=None):
    """One exchange; returns the status and what the body says."""
    with closing(HTTPConnection(*place(host)[0], timeout=DEADLINE_S)) as peer:
        peer.request(method, path, body)
        response = peer.getresponse()
        return response.status, json.loads(response.read())


def raw(host, text):
    """Send bytes, end the sending, and return all that comes back."""
    with socket.create_connection(place(host)[0], DEADLINE_S) as peer:
        peer.sendall(text)
        peer.shutdown(socket.SHUT_WR)
        with peer.makefile("rb") as answer:
            return answer.read()


def line(path, text):
    """Send bytes to a socket, end the sending, and return all that comes back."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(DEADLINE_S)
        peer.connect(str(path))
        peer.sendall(text)
        peer.shutdown(socket.SHUT_WR)
        with peer.makefile("rb") as answer:
            return answer.read()


def transport_to_socket(host):
    return SocketTransport(host.environment()["CRASHPOINT_TRACKER_SOCKET"])


def ended(pidfd):
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(DEADLINE_S * 1000))


def test_it_says_what_it_is(tracker):
    status, body = http(tracker, "GET", "/")
    assert status == 200
    assert body["receiver"] == "tracker"
    assert body["dialect"]["keys"] == "forever"


BAD_REQUESTS = (
    ("GET", "/issues", None, 404),
    ("POST", "/", "{}", 404),
    ("POST", "/issues", "{}", 404),
    ("POST", "/issues/person", "{}", 404),
    ("POST", "TRIAL/issues", "{}", 404),
    ("POST", "TRIAL/person/", "{}", 404),
    ("PUT", "TRIAL", "{}", 501),
    ("POST", "TRIAL", "", 400),
    ("POST", "TRIAL", "{", 400),
    ("POST", "TRIAL", "[" * 9 + "]" * 9, 400),
    ("POST", "TRIAL", '{"op": "file", "args": {"title": NaN}}', 400),
    ("POST", "TRIAL", '{"op": "file", "args": {"title": "\\ud800"}}', 400),
    ("POST", "TRIAL", '{"op": "file", "op": "file", "args": {"title": "a"}}', 400),
    ("POST", "TRIAL", b'{"op": "file", "args": {"title": "\xff"}}', 400),
    ("POST", "TRIAL", '{"op": "file", "args": {"title": "a"}, "keys": "k"}', 400),
    ("POST", "TRIAL", '[{"op": "file", "args": {"title": "a"}}]', 400),
    ("POST", "TRIAL", "null", 400),
    ("POST", "TRIAL", "9" * 5000, 400),
    ("POST", "TRIAL", " " * (REQUEST_MAX + 1), 413),
    ("POST", "TRIAL/person", "{}", 400),
)


def test_a_bad_request_gets_one_sentence_and_leaves_no_record(the_bench, tracker):
    for method, path, body, status in BAD_REQUESTS:
        got, said = http(tracker, method, path.replace("TRIAL", place(tracker)[1]), body)
        assert (got, list(said)) == (status, ["error"]), body
        assert 0 < len(said["error"]) < 300
        assert "\n" not in said["error"]
    assert the_bench.records(tracker.trial) == []
    assert made(HttpTransport(tracker.url).send(MAKES["tracker"])) == 1


def test_a_body_of_no_clear_length_is_refused(tracker):
    for head in (
        b"",
        b"Content-Length: -1\r\n",
        b"Content-Length: many\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 000000000000000000000000000000000000002\r\n",
        b"Content-Length: 99999999999999999999\r\n",
    ):
        answer = raw(tracker, b"POST /t HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n{}")
        assert answer.split()[1] in (b"411", b"413"), head
        assert b"Connection: close" in answer


def test_a_request_cut_short_is_neither_done_nor_answered(the_bench, tracker):
    body = json.dumps(MAKES["tracker"]).encode()
    path = place(tracker)[1].encode()
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    assert raw(tracker, head % (path, len(body) + 1) + body) == b""
    assert b'{"issue": 1}' in raw(tracker, head % (path, len(body)) + body)
    assert len(the_bench.records(tracker.trial)) == 1


def test_a_bad_line_gets_one_sentence_and_leaves_no_record(the_bench):
    trial = the_bench.trial()
    path = the_bench.folder(f"lines-{trial.name}") / "s"
    with the_bench.host("tracker", trial, socket=path) as host:
        tag = place(host)[1].removeprefix("/")
        good = json.dumps({"to": tag, "request": MAKES["tracker"]}).encode()
        for text, status in (
            (b"\n", 400),
            (b"{\n", 400),
            (b"[]\n", 400),
            (b'{"to": "' + tag.encode() + b'"}\n', 400),
            (b'{"to": "' + tag.encode() + b'", "request": null}\n', 400),
            (good + b"\n" + good + b"\n", 400),
            (good.replace(tag.encode(), b"elsewhere") + b"\n", 404),
            (good.replace(tag.encode(), tag.encode() + b"/issues") + b"\n", 404),
            (b'{"to": 7, "request": {}}\n', 404),
            (b" " * (REQUEST_MAX + 1) + b"\n", 413),
            (b"x" * (20 * REQUEST_MAX) + b"\n", 413),
        ):
            reply = json.loads(line(path, text))
            assert reply["status"] == status, text[:80]
            assert list(reply["body"]) == ["error"]
        assert line(path, good) == b""  # cut short
        assert line(path, b"") == b""
        assert the_bench.records(trial) == []
        assert json.loads(line(path, good + b"\n")) == {"status": 200, "body": {"issue": 1}}


def test_a_request_of_a_megabyte_is_refused_and_not_a_time_out(the_bench):
    trial = the_bench.trial()
    path = the_bench.folder(f"lines-{trial.name}") / "s"
    with the_bench.host("tracker", trial, socket=path) as host:
        for transport in (HttpTransport(host.url), transport_to_socket(host)):
            with pytest.raises(ReceiverRefused, match="at most 60000 bytes") as refused:
                Tracker(transport).file("a", "b" * 1_000_000)
            assert refused.value.status == 413
    assert the_bench.records(trial) == []


def test_a_peer_that_says_nothing_keeps_no_other_from_being_answered(the_bench):
    trial = the_bench.trial()
    path = the_bench.folder(f"lines-{trial.name}") / "s"
    host = the_bench.host("tracker", trial, socket=path)
    with host, socket.socket(socket.AF_UNIX) as idle:
        idle.connect(str(path))
        idle.sendall(b'{"to"')
        transport = transport_to_socket(host)
        assert made(transport.send(MAKES["tracker"])) == 1
        host.kill()
        with pytest.raises(ReceiverDown):
            transport.send(MAKES["tracker"])


def test_one_connection_carries_several_requests(tracker):
    body = json.dumps(MAKES["tracker"])
    address, path = place(tracker)
    with closing(HTTPConnection(*address, timeout=DEADLINE_S)) as peer:
        for n in (1, 2, 3):
            peer.request("POST", path, body)
            assert json.loads(peer.getresponse().read()) == {"issue": n}


def test_a_key_is_in_progress_while_its_request_is_worked_on(the_bench):
    trial = the_bench.trial()
    keyed = {**MAKES["payments"], "key": "k"}
    with the_bench.host("payments", trial, dialect=KEYED_CHECKED, delay_s=0.2) as host:
        together, answers = threading.Barrier(3), []

        def send():
            together.wait(DEADLINE_S)
            answers.append(HttpTransport(host.url).send(keyed)["status"])

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made(HttpTransport(host.url).send(keyed)) == 1
    records = the_bench.records(trial)
    assert sum(record["did"] == "acted" for record in records) == 1
    # Whether one of them came after the first was done is for the scheduler to say.
    assert min(answers) == 200
    assert {*answers} <= {200, 409}
    assert sum(record["did"] == "refused" for record in records) == answers.count(409) > 0


def test_a_delayed_receiver_reads_and_refuses_at_once_and_works_on_each_change(the_bench):
    with the_bench.host("tracker", the_bench.trial(), delay_s=3600) as host:
        transport = HttpTransport(host.url)
        assert transport.send({"op": "search", "args": {"text": "a"}})["status"] == 200
        assert transport.send({"op": "file", "args": {}})["status"] == 400


def test_two_receivers_share_a_trial_and_keep_apart(the_bench):
    trial = the_bench.trial()
    with the_bench.host("tracker", trial) as tracker, the_bench.host("payments", trial) as payments:
        assert made(HttpTransport(tracker.url).send(MAKES["tracker"])) == 1
        assert made(HttpTransport(payments.url).send(MAKES["payments"])) == 1
        tracker.restart()
        payments.restart()
        assert made(HttpTransport(tracker.url).send(MAKES["tracker"])) == 2
        assert made(HttpTransport(payments.url).send(MAKES["payments"])) == 2
    assert len(the_bench.records(trial)) == 4


def test_the_address_stays_through_restarts(tracker):
    before = (tracker.url, dict(tracker.environment()), tracker.pid)
    tracker.restart()
    assert (tracker.url, dict(tracker.environment())) == before[:2]
    assert tracker.pid != before[2]


def test_a_subject_gets_an_address_and_no_token(tracker):
    # What a subject is given holds an address and no way to the ledger.
    assert list(tracker.environment()) == ["CRASHPOINT_TRACKER"]
    assert tracker.trial.witness not in " ".join(tracker.environment().values())


def test_it_turns_to_another_trial_and_knows_nothing_of_the_first(the_bench, tracker):
    first_url, transport = tracker.url, HttpTransport(tracker.url)
    keyed = {**MAKES["tracker"], "key": "k"}
    tracker.inject(ReceiverFault.LATE_ACCEPT)
    with pytest.raises(ReceiverTimeout):
        transport.send(keyed)
    tracker.inject(ReceiverFault.ERROR)
    second = the_bench.trial()
    tracker.begin(second.witness)
    assert tracker.settle() == 0
    refused = transport.send(keyed)
    assert refused["status"] == 404
    assert "it is over" in refused["body"]["error"]
    assert Person(HttpTransport(f"{tracker.url}/person")).ask("file", {"title": "a"}) is False
    assert made(HttpTransport(tracker.url).send(keyed)) == 1
    tracker.restart()
    assert made(HttpTransport(tracker.url).send(keyed)) == 1
    assert the_bench.records(tracker.trial) == []
    tracker.begin(tracker.trial.witness)
    assert tracker.url == first_url
    assert made(transport.send(keyed)) == 1


def test_a_request_worked_on_when_its_trial_ends_is_not_done_in_the_next(the_bench):
    trial, second = the_bench.trial(), the_bench.trial()
    with the_bench.host("tracker", trial, delay_s=0.2) as host:
        replies = []
        transport = HttpTransport(host.url)
        waiting = threading.Thread(target=lambda: replies.append(transport.send(MAKES["tracker"])))
        waiting.start()
        host.begin(second.witness)
        waiting.join()
        assert replies[0]["status"] == 404
        assert made(HttpTransport(host.url).send(MAKES["tracker"])) == 1
    assert the_bench.records(trial) == []


def test_a_trial_that_does_not_exist_ends_it(the_bench, tracker):
    with pytest.raises(HostFault, match="no open trial"):
        tracker.begin("nobody's")
    with pytest.raises(HostFault, match="no open trial"):
        tracker.calm()
    os.waitid(os.P_PID, tracker.pid, os.WEXITED | os.WNOWAIT)
    assert tracker.has_ended
    assert tracker.wait() == EXIT_LEDGER
    assert not tracker.has_ended


def test_it_is_healed_dead_or_alive_as_soon_as_its_crash_is_seen(tracker):
    transport = HttpTransport(tracker.url)
    for n in range(1, 21):
        tracker.inject(ReceiverFault.RECEIVER_CRASH)
        with pytest.raises(ReceiverTimeout):
            transport.send({**MAKES["tracker"], "key": f"{n}"})
        before = tracker.pid
        tracker.heal()
        assert tracker.pid != before
        tracker.inject(ReceiverFault.ERROR)
        tracker.heal()
        assert made(transport.send({**MAKES["tracker"], "key": f"{n}"})) == n
    tracker.kill()
    with pytest.raises(HostFault, match="not running"):
        tracker.calm()


def test_faults_come_and_go_while_it_runs(tracker):
    transport = HttpTransport(tracker.url)
    tracker.inject(ReceiverFault.ERROR, 2)
    assert [transport.send(MAKES["tracker"])["status"] for _ in range(3)] == [200, 500, 200]
    tracker.inject(ReceiverFault.ERROR)
    tracker.calm()
    assert transport.send(MAKES["tracker"])["status"] == 200
    assert not tracker.has_ended


def test_it_ends_when_its_parent_is_killed(the_bench, tmp_path):
    trial = the_bench.trial()
    program = (
        "import sys, pathlib\n"
        "from crashpoint.receivers.host import ReceiverHost\n"
        "host = ReceiverHost('tracker', witness=pathlib.Path(sys.argv[1]), token=sys.argv[2],\n"
        "                    log=pathlib.Path(sys.argv[3]))\n"
        "host.start()\n"
        "print(host.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c", program, str(the_bench.ledger.witness_socket)),
            *(trial.witness, str(tmp_path / "err")),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        receiver = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        assert ended(receiver)
        os.close(receiver)
    finally:
        parent.kill()
        parent.wait()
        parent.stdin.close()
        parent.stdout.close()


def test_it_stops_although_somebody_else_holds_its_input_open(the_bench):
    host = the_bench.host("tracker", the_bench.trial())
    host.start()
    process = host._process
    held = os.dup(process.stdin.fileno())
    try:
        host.stop()
        assert process.returncode == -signal.SIGTERM
    finally:
        os.close(held)


def test_it_can_be_stopped_while_it_is_frozen(the_bench):
    host = the_bench.host("tracker", the_bench.trial())
    host.start()
    process = host._process
    os.kill(host.pid, signal.SIGSTOP)
    host.kill()
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(HostFault, match="not running"):
        _ = host.pid


def test_without_a_ledger_it_does_not_start(the_bench, tmp_path):
    host = the_bench.host("tracker", the_bench.trial(), witness=tmp_path / "none")
    with pytest.raises(HostFault, match="no ledger at"):
        host.start()
    host.stop()
    with pytest.raises(HostFault, match="not started"):
        _ = host.url


def test_with_a_wrong_token_it_does_not_start(the_bench):
    trial = the_bench.trial()
    trial.witness = "somebody-else's"
    with pytest.raises(HostFault, match="no open trial"):
        the_bench.host("tracker", trial).start()


def test_records_that_are_not_its_own_making_stop_it(the_bench):
    trial = the_bench.trial()
    with closing(Witness(the_bench.ledger.witness_socket, trial.witness)) as witness:
        witness.append({"receiver": "payments", "op": "charge"})
    with the_bench.host("tracker", trial):
        pass
    with pytest.raises(HostFault, match="a record of payments lacks 'args'"):
        the_bench.host("payments", trial).start()


def test_a_sealed_trial_keeps_no_more_and_that_is_said(the_bench, tracker):
    transport = HttpTransport(tracker.url)
    made(transport.send(MAKES["tracker"]))
    the_bench.wait(tracker.trial.seal("done"))
    reply = transport.send(MAKES["tracker"])
    assert reply["status"] == 500
    assert "cannot keep a record" in reply["body"]["error"]
    assert transport.send({"op": "search", "args": {"text": "login"}})["body"] == {"issues": [1]}


def test_it_is_started_once(tracker):
    with pytest.raises(HostFault, match="running already"):
        tracker.start()


def test_a_port_that_is_taken_is_said(the_bench, tracker):
    other = the_bench.host("tracker", the_bench.trial())
    other._port = place(tracker)[0][1]
    with pytest.raises(HostFault, match="cannot listen on"):
        other.start()


@pytest.mark.parametrize(
    "options",
    [
        ["--receiver=mailer"],
        ["--dialect=polite"],
        ['--dialect={"name": "x", "keys": "retention"}'],
        ["--fault=explode:1"],
        ["--fault=error"],
        ["--fault=error:0"],
        ["--delay-s=-1"],
        ["--delay-s=nan"],
        ["--person-wrong-rate=2"],
        ["--token-env=NOT_THERE"],
    ],
    ids=str,
)
def test_a_wrong_option_is_named(capsys, monkeypatch, tmp_path, options):
    monkeypatch.setenv("TOKEN", "t")
    usual = [
        *("--receiver=tracker", "--dialect=keyed", "--token-env=TOKEN"),
        f"--witness={tmp_path / 'none'}",
    ]
    with pytest.raises(SystemExit) as left:
        main([*usual, *options])
    assert left.value.code == 2
    assert options[0].partition("=")[0] in capsys.readouterr().err


def test_a_ledger_that_dies_takes_the_receiver_with_it():
    with bench() as own:
        host = own.host("tracker", own.trial(), dialect=LOOKUP)
        host.start()
        try:
            made(HttpTransport(host.url).send(MAKES["tracker"]))
            os.kill(own.ledger.pid, signal.SIGKILL)
            own.wait(own.ledger.died.wait())
            with pytest.raises(Exception, match="no answer"):
                HttpTransport(host.url).send(MAKES["tracker"])
            assert host.wait() == EXIT_LEDGER
            said = host._log.read_text().splitlines()
            assert len(said) == 1
            assert "ledger" in said[0]
            own.wait(own.ledger.restart())
            host.start()
            assert made(HttpTransport(host.url).send(MAKES["tracker"])) == 2
        finally:
            host.stop()


def test_hosts_take_a_dialect_that_has_no_name(the_bench):
    mine = replace(KEYED, name="mine", lookup=False)
    with the_bench.host("tracker", the_bench.trial(), dialect=mine) as host:
        reply = HttpTransport(host.url).send({"op": "find", "args": {"key": "k"}})
        assert reply["status"] == 404
