"""A receiver as a process of its own, with an HTTP front on 127.0.0.1.

`python -m crashpoint.receivers.server --receiver tracker --dialect keyed --witness SOCKET
--token-env VAR`. A request is in the ledger before it is answered and the state is folded from the
ledger at the start, so a SIGKILL loses nothing that was answered.

The first line of output is JSON with the `url`, which is the trial's own: what is still on its way
when a trial is over cannot end up in the next one. POST to it takes {op, args, key?}, POST to
`url`/person takes {op, args}, GET / says what this is.

Lines of input are the controller's, each answered with a line: `settle` does what the fault
`late-accept` kept back; `trial TOKEN` forgets everything and is the receiver of that trial, at
another `url`; `fault KIND:NTH` has a fault befall the NTH changing request from then on; `calm`
takes such faults back. At the end of the input the process ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from crashpoint.canonical import NotCanonical, parse
from crashpoint.receivers.client import ReceiverTimeout
from crashpoint.receivers.dialect import Dialect, DialectError
from crashpoint.receivers.lines import LineServer
from crashpoint.receivers.ops import RECEIVERS, Refusal, checked
from crashpoint.receivers.person import ScriptedPerson
from crashpoint.receivers.receiver import Receiver, ReceiverFault
from crashpoint.receivers.service import NotARecord, Reply, fold
from crashpoint.receivers.witness import Witness, WitnessGone, WitnessRefused, tag_of

__all__ = ["EXIT_LEDGER", "REQUEST_MAX", "Front", "main"]

REQUEST_MAX: Final = 60_000
"""Bytes in a request. Its record then reaches the ledger in one piece, so that a line left behind
by a killed process is read before the first one of its successor."""
SKIP_MAX: Final = 1 << 26
"""Bytes of a larger one that are read before it is refused."""
IDLE_S: Final = 30.0
"""Longest wait for a peer to send its request or the next one."""
DELAY_MAX_S: Final = 3600.0
BACKLOG: Final = 128
EXIT_LEDGER: Final = 74

T = TypeVar("T")


class Front:
    """The receiver behind a lock. `delay_s`: how long a changing request is worked on.

    Each request comes with the tag of the trial it is meant for.
    """

    def __init__(
        self, receiver: Receiver, witness: Witness, *, tag: str, delay_s: float = 0.0
    ) -> None:
        self.tag = tag
        """The present trial's."""
        self._receiver = receiver
        self._witness = witness
        self._delay_s = delay_s
        self._lock = threading.Lock()

    def send(self, tag: str, request: Any) -> Reply:
        """Answer a request; raises ReceiverTimeout when there is to be no answer."""
        if not self._takes_time(request):
            return self._guarded(tag, lambda: self._receiver.send(request))
        refusal = self._guarded(tag, lambda: self._begin(request))
        if refusal is not None:
            return refusal
        time.sleep(self._delay_s)
        return self._guarded(tag, lambda: self._finish(request))

    def ask(self, tag: str, question: Any) -> Reply:
        """The person's answer."""
        return self._guarded(tag, lambda: self._receiver.ask(question))

    def answer(self, to: str, request: Any) -> Reply:
        """Answer what was sent to an address: `TAG`, or `TAG/person`."""
        tag, _, rest = to.partition("/")
        door = {"": self.send, "person": self.ask}.get(rest)
        if door is None:
            return _error(404, f"nothing at {to[:80]!a}: send to the trial or its person")
        return door(tag, request)

    def settle(self) -> int:
        """As Receiver.settle; ends the process when a record cannot be kept."""
        with self._lock:
            try:
                return self._receiver.settle()
            except (WitnessRefused, WitnessGone) as error:
                _end(str(error))

    def begin(self, token: str) -> None:
        """Be the receiver of another trial: what is in it, and nothing else."""
        with self._lock:
            try:
                self._witness.turn_to(token)
                self.tag = tag_of(token)
                self._receiver.late, self._receiver.under_way = (), []
                self._receiver.calm()
                self._receiver.state = fold(self._receiver.state.receiver, self._witness.records())
            except (WitnessRefused, WitnessGone, NotARecord) as error:
                _end(str(error))

    def inject(self, fault: ReceiverFault, nth: int) -> None:
        """As Receiver.inject."""
        with self._lock:
            self._receiver.inject(fault, nth)

    def calm(self) -> None:
        """As Receiver.calm."""
        with self._lock:
            self._receiver.calm()

    def about(self) -> Reply:
        """What this receiver is and promises."""
        told = {
            "receiver": self._receiver.state.receiver,
            "dialect": json.loads(self._receiver.dialect.text()),
        }
        return {"status": 200, "body": told}

    def _takes_time(self, request: Any) -> bool:
        if not self._delay_s:
            return False
        try:
            return checked(self._receiver.state.receiver, request)[0].changes
        except Refusal:
            return False

    def _begin(self, request: Any) -> Reply | None:
        refusal = self._receiver.in_progress(request)
        if refusal is None:
            self._receiver.under_way.append(request)
        return refusal

    def _finish(self, request: Any) -> Reply:
        self._receiver.under_way.remove(request)
        return self._receiver.perform(request)

    def _guarded(self, tag: str, work: Callable[[], T]) -> T | Reply:
        with self._lock:
            if tag != self.tag:
                return _error(404, f"no trial at /{tag[:80]}: it is over, or the address is wrong")
            try:
                return work()
            except WitnessRefused as refusal:
                return _error(500, f"the receiver cannot keep a record: {refusal}")
            except WitnessGone as gone:
                _end(str(gone))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "crashpoint"
    sys_version = ""
    timeout = IDLE_S
    disable_nagle_algorithm = True  # or the body waits until the peer has acknowledged the head
    server: _Server

    def do_POST(self) -> None:
        to = self.path.removeprefix("/")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self.send_error(411, "a request needs a Content-Length and no Transfer-Encoding")
        elif len(length) > 9 or int(length) > REQUEST_MAX:
            if len(length) <= 9:
                self._skip(int(length))
            self.send_error(413, f"a request has at most {REQUEST_MAX} bytes")
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                self._answer(lambda request: self.server.front.answer(to, request), body)
            else:
                self.close_connection = True

    def do_GET(self) -> None:
        if self.path == "/":
            self._reply(self.server.front.about())
        else:
            self.send_error(404, f"nothing at {self.path[:80]!a}: GET / says what this is")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in the form of every reply, and hang up: what else was sent is not read."""
        self.close_connection = True
        self._reply(_error(code, message or explain or self.responses[code][0]))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name
        """Say nothing: the ledger has it all."""

    def _skip(self, length: int) -> None:
        """Read what is not wanted: a peer that is hung up on while it sends loses the answer."""
        left = min(length, SKIP_MAX)
        while left > 0 and (read := self.rfile.read(min(left, REQUEST_MAX))):
            left -= len(read)

    def _answer(self, answer: Callable[[Any], Reply], body: bytes) -> None:
        try:
            request = parse(body, depth_max=8)
        except NotCanonical as error:
            self._reply(_error(400, str(error)))
            return
        try:
            reply = answer(request)
        except ReceiverTimeout:
            self.close_connection = True
            return
        self._reply(reply)

    def _reply(self, reply: Reply) -> None:
        body = json.dumps(reply["body"], ensure_ascii=False).encode()
        self.send_response(reply["status"])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    request_queue_size = BACKLOG

    def __init__(self, port: int, front: Front) -> None:
        self.front = front
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Without http.server's question to the name service."""
        socketserver.TCPServer.server_bind(self)
        self.server_port = self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that went away is its own affair; anything else is ours and is told."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until standard input ends: 0. The ledger fails or contradicts itself: 74. Usage: 2."""
    options = _options(argv)
    try:
        token = os.environ[options.token_env]
        witness = Witness(options.witness, token)
        state = fold(options.receiver, witness.records())
    except (WitnessGone, WitnessRefused, NotARecord) as error:
        _end(str(error))
    receiver = Receiver(
        state,
        options.dialect,
        now_s=_clock(options.clock_file),
        keep=witness.append,
        die=_die,
        person=ScriptedPerson(options.person_seed, options.person_wrong_rate),
    )
    for fault, nth in options.fault:
        receiver.inject(fault, nth)
    front = Front(receiver, witness, tag=tag_of(token), delay_s=options.delay_s)
    try:
        server = _Server(options.port, front)
    except OSError as error:
        _end(f"cannot listen on 127.0.0.1:{options.port}: {error.strerror}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if options.socket is not None:
        lines = LineServer(options.socket, front.answer, request_max=REQUEST_MAX)
        threading.Thread(target=lines.serve, daemon=True).start()
    port = server.server_port
    _say({"url": _url(port, front), "port": port, **front.about()["body"]})
    for line in sys.stdin:
        _say(_obey(line, front, port))
    return 0


def _obey(line: str, front: Front, port: int) -> dict[str, Any]:
    """Do what the controller says, and what to answer."""
    command, _, argument = line.strip().partition(" ")
    match command:
        case "settle":
            return {"settled": front.settle()}
        case "trial":
            front.begin(argument)
            return {"url": _url(port, front)}
        case "fault":
            front.inject(*_fault(argument))
        case "calm":
            front.calm()
        case _:
            return {"error": f"no command {command[:80]!a}"}
    return {"done": command}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="crashpoint.receivers.server", description=__doc__)
    parser.add_argument("--receiver", choices=RECEIVERS, required=True)
    parser.add_argument("--dialect", type=_dialect, required=True, help="a name, or JSON")
    parser.add_argument("--witness", type=Path, required=True, help="the ledger's socket")
    parser.add_argument("--token-env", required=True, help="variable that holds the trial's token")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--socket", type=Path, help="where to listen for lines as well")
    parser.add_argument("--fault", type=_fault, action="append", default=[], help="KIND:NTH")
    parser.add_argument("--delay-s", type=_seconds, default=0.0)
    parser.add_argument("--clock-file", type=Path, help="holds the time in seconds, read each time")
    parser.add_argument("--person-seed", type=int, default=0)
    parser.add_argument("--person-wrong-rate", type=float, default=0.0)
    options = parser.parse_args(argv)
    if options.token_env not in os.environ:
        parser.error(f"--token-env: {options.token_env} is not in the environment")
    if not 0 <= options.person_wrong_rate <= 1:
        parser.error(f"--person-wrong-rate: {options.person_wrong_rate} is not from 0 to 1")
    return options


def _dialect(text: str) -> Dialect:
    try:
        return Dialect.parse(text)
    except DialectError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= DELAY_MAX_S:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {DELAY_MAX_S:g} seconds")
    return seconds


def _fault(text: str) -> tuple[ReceiverFault, int]:
    kind, _, nth = text.partition(":")
    if kind not in list(ReceiverFault) or not nth.isdecimal() or int(nth) < 1:
        known = ", ".join(ReceiverFault)
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND:NTH with NTH >= 1; kinds: {known}")
    return ReceiverFault(kind), int(nth)


def _clock(file: Path | None) -> Callable[[], float]:
    if file is None:
        return time.time
    return lambda: float(file.read_text(encoding="ascii"))


def _url(port: int, front: Front) -> str:
    return f"http://127.0.0.1:{port}/{front.tag}"


def _error(status: int, sentence: str) -> Reply:
    return {"status": status, "body": {"error": sentence}}


def _say(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()


def _end(why: str) -> NoReturn:
    """End from any thread at once: nothing that is not in the ledger may be answered any more."""
    with suppress(OSError):
        sys.stderr.write(f"crashpoint receiver: {why}\n")
        sys.stderr.flush()
    os._exit(EXIT_LEDGER)


if __name__ == "__main__":
    sys.exit(main())
