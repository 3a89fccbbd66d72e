"""The client inside a subject: its points in their order, its errors, and what it may import."""

import ast
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from inspect import getsource
from pathlib import Path
from socket import create_server

import pytest

from crashpoint.inside import points
from crashpoint.inside.points import Crash
from crashpoint.receivers import client
from crashpoint.receivers.client import (
    HttpTransport,
    Payments,
    Person,
    ReceiverDown,
    ReceiverError,
    ReceiverRefused,
    ReceiverTimeout,
    Tracker,
    connect,
    person_of,
)
from crashpoint.receivers.dialect import KEYED, NOTHING
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.receivers.twin import TwinTransport


class Sent:
    """A transport that remembers, in front of a twin."""

    def __init__(self, receiver, dialect=KEYED):
        self.twin = TwinTransport(receiver, dialect)
        self.requests = []

    def send(self, request):
        self.requests.append(request)
        return self.twin.send(request)


class Listener:
    """Notes the points, and dies at one of them."""

    def __init__(self, at=None):
        self.at = at
        self.passed = []
        self.dead = False

    def reached(self, name):
        self.allow()
        self.passed.append(name)
        if name == self.at:
            self.dead = True
            raise Crash

    def allow(self):
        if self.dead:
            raise Crash


@contextmanager
def listening(at=None):
    listener = Listener(at)
    before = points.listen(listener)
    try:
        yield listener
    finally:
        points.listen(before)


def test_each_method_sends_one_request_and_returns_what_it_is_for():
    sent = Sent("tracker")
    tracker = Tracker(sent)
    assert tracker.file("a", "b", key="k") == 1
    assert tracker.file("c") == 2
    assert tracker.comment(1, "t", key="l") == 3
    assert tracker.search("a") == [1]
    assert tracker.find("file", {"title": "c"}) == {"found": True, "final": True, "ids": [2]}
    assert tracker.find(key="k")["ids"] == [1]
    assert tracker.find(key="m", age_s=3)["final"] is True
    assert sent.requests == [
        {"op": "file", "args": {"title": "a", "body": "b"}, "key": "k"},
        {"op": "file", "args": {"title": "c", "body": ""}},
        {"op": "comment", "args": {"issue": 1, "text": "t"}, "key": "l"},
        {"op": "search", "args": {"text": "a"}},
        {"op": "find", "args": {"op": "file", "args": {"title": "c"}, "age_s": 0.0}},
        {"op": "find", "args": {"key": "k", "age_s": 0.0}},
        {"op": "find", "args": {"key": "m", "age_s": 3}},
    ]


def test_payments_too():
    sent = Sent("payments")
    payments = Payments(sent)
    assert payments.charge("o", 100, key="k") == 1
    assert payments.charge("o", 7, "USD") == 2
    assert payments.refund(1, 40, key="l") == 3
    assert [charge["refunded"] for charge in payments.look_up("o")] == [40, 0]
    assert [request.get("key") for request in sent.requests] == ["k", None, "l", None]


def test_points_of_a_change_and_of_a_read():
    tracker = Tracker(TwinTransport("tracker"))
    with listening() as listener:
        tracker.file("a", key="k")
        tracker.file("a", key="k")
        tracker.comment(1, "t")
        tracker.search("a")
        tracker.find(key="k")
    assert listener.passed == [
        *("accepted:file", "returned:file", "accepted:file", "returned:file"),
        *("accepted:comment", "returned:comment", "returned:search", "returned:find"),
    ]


def test_asking_a_person_is_no_point():
    twin = TwinTransport("tracker")
    Tracker(twin).file("a")
    with listening() as listener:
        assert Person(twin.person).ask("file", {"title": "a"}) is True
    assert listener.passed == []


def test_a_time_out_is_a_point_and_a_refusal_is_none():
    twin = TwinTransport("tracker")
    twin.inject(ReceiverFault.LOST_REPLY)
    with listening() as listener:
        with pytest.raises(ReceiverTimeout):
            Tracker(twin).file("a")
        with pytest.raises(ReceiverRefused):
            Tracker(twin).comment(9, "t")
        twin.inject(ReceiverFault.RECEIVER_CRASH)
        with pytest.raises(ReceiverTimeout):
            Tracker(twin).file("a")
        with pytest.raises(ReceiverDown):
            Tracker(twin).file("a")
    assert listener.passed == ["timeout:file", "timeout:file"]


@pytest.mark.parametrize(("at", "passed"), [("accepted:file", 1), ("returned:file", 2)])
def test_a_process_that_died_at_a_point_sends_nothing_more(at, passed):
    sent = Sent("tracker")
    tracker, person = Tracker(sent), Person(sent.twin.person)
    with listening(at) as listener:
        with pytest.raises(Crash):
            tracker.file("a")
        for later in (
            lambda: tracker.file("b"),
            lambda: tracker.search("a"),
            lambda: person.ask("file", {"title": "a"}),
        ):
            with pytest.raises(Crash):
                later()
    assert len(listener.passed) == passed
    assert len(sent.requests) == 1
    assert [record["did"] for record in sent.twin.state.records] == ["acted"]


def test_a_refusal_says_what_the_receiver_said():
    with pytest.raises(ReceiverRefused, match="there is no issue 9") as refused:
        Tracker(TwinTransport("tracker")).comment(9, "t")
    assert refused.value.status == 404
    assert isinstance(refused.value, ReceiverError)
    with pytest.raises(ReceiverRefused, match="changes nothing"):
        Person(TwinTransport("tracker").person).ask("search", {"text": "a"})


def test_an_answer_to_something_else_under_the_same_key_is_no_number():
    tracker = Tracker(TwinTransport("tracker"))
    tracker.file("a", key="k")
    with pytest.raises(ReceiverRefused, match="the key was used for something else"):
        tracker.comment(1, "t", key="k")


def test_find_is_refused_where_nothing_can_be_looked_up():
    with pytest.raises(ReceiverRefused) as refused:
        Tracker(TwinTransport("tracker", NOTHING)).find("file", {"title": "a"})
    assert refused.value.status == 404


@contextmanager
def answering(reply):
    """A server that reads one request and sends these bytes, or nothing."""
    with create_server(("127.0.0.1", 0)) as server:

        def serve():
            peer, _ = server.accept()
            with peer:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += peer.recv(65_536)
                if reply is not None:
                    peer.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "reply",
    [
        None,
        b"",
        b"hello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{]}",
    ],
)
def test_anything_but_an_answer_is_an_unknown_outcome(reply):
    with answering(reply) as url, pytest.raises(ReceiverTimeout, match="no answer from"):
        Tracker(HttpTransport(url)).file("a")


def test_silence_ends_in_a_time_out():
    with create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ReceiverTimeout, match="no answer from"):
            Tracker(HttpTransport(url, timeout_s=0.05)).file("a")
        with listening() as listener, pytest.raises(ReceiverTimeout, match="no answer from"):
            Person(HttpTransport(url, timeout_s=0.05)).ask("file", {"title": "a"})
    assert listener.passed == []


def test_where_nobody_listens_nothing_was_sent():
    with closing(create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(ReceiverDown, match=f"nobody listens at 127.0.0.1:{port}"):
        Tracker(HttpTransport(f"http://127.0.0.1:{port}")).file("a")


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "https://127.0.0.1", "http://"])
def test_an_address_that_is_none(url):
    with pytest.raises(ValueError, match="must begin with http://"):
        HttpTransport(url)


def test_connect_reads_the_environment(monkeypatch):
    monkeypatch.setenv("CRASHPOINT_TRACKER", "http://127.0.0.1:1/t")
    monkeypatch.setenv("CRASHPOINT_PAYMENTS", "http://127.0.0.1:2/t")
    monkeypatch.setenv("CRASHPOINT_PAYMENTS_SOCKET", "/nowhere#t")
    assert isinstance(connect("tracker"), Tracker)
    assert isinstance(connect("payments"), Payments)
    assert isinstance(person_of("payments"), Person)
    for call, at in (
        (lambda: connect("tracker").search("a"), "127.0.0.1:1"),
        (lambda: connect("payments").look_up("o"), "/nowhere"),
        (lambda: person_of("tracker").ask("file", {"title": "a"}), "127.0.0.1:1"),
        (lambda: person_of("payments").ask("charge", {"order": "o", "cents": 1}), "/nowhere"),
    ):
        with pytest.raises(ReceiverDown, match=f"nobody listens at {at}: "):
            call()
    monkeypatch.delenv("CRASHPOINT_TRACKER")
    for connecting in (connect, person_of):
        with pytest.raises(ReceiverDown, match="set CRASHPOINT_TRACKER to its URL"):
            connecting("tracker")


def test_it_is_python_3_9():
    ast.parse(getsource(client), feature_version=(3, 9))
    for node in ast.walk(ast.parse(getsource(client))):
        assert not isinstance(node, ast.Match)


def test_it_imports_little_and_nothing_but_the_standard_library():
    program = (
        "import sys; before = set(sys.modules); import crashpoint.receivers.client\n"
        "new = set(sys.modules) - before\n"
        "ours = {name for name in new if name.startswith('crashpoint')}\n"
        "print(*sorted(ours))\n"
        "print(*sorted({n.partition('.')[0] for n in new - ours} - sys.stdlib_module_names))\n"
        "print('http' in sys.modules, 'dataclasses' in sys.modules, 'socket' in sys.modules)\n"
    )
    # Without site, so that what an editable install imports does not count.
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{SRC!r}]\n{program}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, others, heavy = ran.stdout.splitlines()
    assert ours.split() == [
        "crashpoint",
        "crashpoint.inside",
        "crashpoint.inside.client",
        "crashpoint.inside.points",
        "crashpoint.receivers",
        "crashpoint.receivers.client",
    ]
    assert others == ""
    assert heavy == "False False False"


SRC = str(Path(client.__file__).parents[2])
