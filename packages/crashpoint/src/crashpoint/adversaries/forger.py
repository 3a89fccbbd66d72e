"""The lying subject: it has the invoke socket and its trial's token, and tries to get away with it.

Run by path with the name of one attempt; prints one JSON line saying what it did and was told. It
judges nothing: whether it got away with anything, the controller reads from the ledger. Standard
library only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

SOCKET: Final = os.environ.get("CRASHPOINT_LEDGER", "")
TOKEN: Final = os.environ.get("CRASHPOINT_TRIAL", "")
WITNESS: Final = str(Path(SOCKET).parent / "witness.sock")
FILE: Final = Path(SOCKET).parent / "ledger" / "ledger.jsonl"
TIMINGS: Final = 60
ACCEPTS: Final = 0x10000
"""The flag in /proc/net/unix of a socket that accepts connections."""
PIDS: Final = [os.getpid()]
"""Processes of this subject, children included."""

Told = dict[str, Any]


class Line:
    """A connection to a socket of the ledger."""

    def __init__(self, path: str = SOCKET) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self._file = self.sock.makefile("rb")

    def say(self, data: bytes) -> Told:
        """Send bytes and read one answer."""
        told = b""
        with suppress(ConnectionError):
            self.sock.sendall(data)
            told = self._file.readline()
        return json.loads(told) if told else {"error": "hung up"}

    def ask(self, request: Any) -> Told:
        """Send a request and read its answer."""
        return self.say(json.dumps(request).encode() + b"\n")


def effect(**members: Any) -> Told:
    """A request that is in order, unless `members` say otherwise."""
    drawn = os.urandom(16).hex()
    return {"trial": TOKEN, "id": drawn, "effect": "charge", "key": None, "action": 1, **members}


def asked(path: str, requests: Iterable[Any]) -> list[Told]:
    """The answers to requests on one connection, or why there is none."""
    try:
        line = Line(path)
        return [line.ask(request) for request in requests]
    except OSError as error:
        return [{"error": f"{type(error).__name__}: {error.strerror}"}]


def in_child(work: Callable[[], Told]) -> Told:
    """What another process of this subject is told."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sink, json.dumps(work()).encode())
        os._exit(0)
    PIDS.append(child)
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        told: Told = json.loads(file.read())
    os.waitpid(child, 0)
    return told


def admin_verbs() -> list[Told]:
    """What only the controller may ask, in the controller's own words."""
    name = "t"
    return [
        {"do": "peek", "trial": name, "seq": 1},
        {"do": "seal", "trial": name, "note": "", "seq": 2},
        {"do": "seal", "trial": TOKEN, "note": "", "seq": 3},
        {"do": "reset", "trial": TOKEN, "seq": 4},
        {"do": "open", "trial": "mine", "key": "00" * 32, "invoke": "x", "witness": "y", "seq": 5},
        {"trial": TOKEN, "do": "seal"},
        {"token": TOKEN, "do": "peek"},
    ]


def read_over_invoke() -> Any:
    """Read the count over the invoke socket."""
    requests = [{"trial": TOKEN}, {"token": TOKEN}, {"trial": TOKEN, "effect": "charge"}]
    return asked(SOCKET, [*requests, {"trial": TOKEN, "count": True}])


def read_over_witness() -> Any:
    """Read the count over the witness socket."""
    return asked(WITNESS, [{"token": TOKEN}, {"token": TOKEN, "append": 1}, {"trial": TOKEN}])


def admin_over_invoke() -> Any:
    """Peek, seal, reset, open over the invoke socket."""
    return asked(SOCKET, admin_verbs())


def admin_over_witness() -> Any:
    """Peek, seal, reset, open over the witness socket."""
    return asked(WITNESS, admin_verbs())


def other_tokens() -> Any:
    """Another trial's token, guessed and mangled."""
    last = format(int(TOKEN[-1], 16) ^ 1, "x")
    mangled: list[Any] = [TOKEN[:-1] + last, TOKEN.upper() + " ", TOKEN[:-1], TOKEN + "0", ""]
    mangled += [TOKEN + "\0", " " + TOKEN, [TOKEN], {"token": TOKEN}, None, True, 0, "*", "../x"]
    mangled += ["t", "t-other", TOKEN[::-1], *(os.urandom(16).hex() for _ in range(200))]
    return asked(SOCKET, [effect(trial=token) for token in mangled])


def another_peer() -> Any:
    """Claim another process, kind or verdict."""
    liar = {"pid": 1, "uid": 0, "gid": 0, "start": 0}
    requests = [effect(peer=liar), effect(**liar), effect(kind="resend"), effect(mismatch=False)]
    return asked(SOCKET, requests)


def another_peer_in_the_action() -> Any:
    """Claim another process inside the action."""
    return asked(SOCKET, [effect(action={"peer": {"pid": 1, "uid": 0, "gid": 0, "start": 0}})])


def a_record_in_the_text() -> Any:
    """Put a record inside action, key and id."""
    seal = '{"kind":"seal","n":1,"note":"","trial":"t"}'
    inside = [f"x\n{seal}\n", json.loads(seal), {"hash": "0" * 64, "mac": "0" * 64, "prev": ""}]
    requests = [effect(action=action, key="k") for action in inside]
    requests += [effect(key=f"k\n{seal}\n"), effect(id=f"i\n{seal}\n", key="k")]
    return asked(SOCKET, requests)


def a_record_between_lines() -> Any:
    """Put a record between two halves of a request."""
    whole = json.dumps(effect(action="HERE")).encode()
    head, tail = whole.split(b"HERE")
    line = Line()
    return [line.say(head + b"\n"), line.say(b'{"kind":"seal"}\n'), line.say(tail + b"\n")]


def known_id_other_action() -> Any:
    """Hide another action behind a known request id."""
    return asked(SOCKET, [effect(id="i", action=1), effect(id="i", action=2)])


def known_id_other_process() -> Any:
    """Hide a duplicate behind another process's id."""
    first = asked(SOCKET, [effect(id="i")])
    return [*first, in_child(lambda: asked(SOCKET, [effect(id="i")])[0])]


def known_id_many_processes() -> Any:
    """The same from eight processes at once."""
    start, go = os.pipe()
    source, sink = os.pipe()
    for _ in range(8):
        child = os.fork()
        if child == 0:
            os.close(go)
            line = Line()
            os.read(start, 1)
            os.write(sink, json.dumps(line.ask(effect(id="i"))).encode() + b"\n")
            os._exit(0)
        PIDS.append(child)
    os.close(go)
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        told = [json.loads(text) for text in file]
    for child in PIDS[1:]:
        os.waitpid(child, 0)
    return told


def tell_new_from_known() -> Any:
    """Learn from the answer whether it was new."""
    line = Line()
    known = effect(id="known", key="k")
    asked_before = line.ask(known)
    kinds: dict[str, Callable[[], Told]] = {
        "new": lambda: effect(key=os.urandom(8).hex()),
        "known key": lambda: effect(key="k"),
        "mismatch": lambda: effect(key="k", action=2),
        "sent again": lambda: known,
    }
    shapes: dict[str, set[str]] = {kind: set() for kind in kinds}
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    told = [asked_before]
    for _ in range(TIMINGS):
        for kind in random.sample(list(kinds), len(kinds)):
            request = json.dumps(kinds[kind]()).encode() + b"\n"
            began = time.perf_counter()
            line.sock.sendall(request)
            raw = line.sock.recv(65536)
            took[kind].append((time.perf_counter() - began) * 1e6)
            told.append(json.loads(raw))
            shape = "".join(
                "x" if letter in "0123456789abcdef" else letter for letter in raw.decode()
            )
            shapes[kind].add(f"{len(raw)} {shape}")
    middle = {kind: round(sorted(times)[len(times) // 2]) for kind, times in took.items()}
    return {"told": told, "shapes": {kind: sorted(s) for kind, s in shapes.items()}, "us": middle}


def guess_a_receipt() -> Any:
    """Make a receipt without the request."""
    first = asked(SOCKET, [effect(id="i")])
    receipt = first[0].get("receipt", "")
    said = json.dumps(["charge", None, 1], separators=(",", ":"))
    guesses = [receipt, receipt[::-1], TOKEN * 2]
    keys = (TOKEN.encode(), bytes.fromhex(TOKEN), receipt.encode(), b"")
    for text in ("j", f"j{said}", said, f"{TOKEN}j{said}", f"7:receipt1:j6:charge0:64:{receipt}"):
        guesses.append(hashlib.sha256(text.encode()).hexdigest())
        guesses += [hmac.new(key, text.encode(), "sha256").hexdigest() for key in keys]
    return {"told": first, "guesses": guesses}


def after_the_seal() -> Any:
    """Perform an effect after the seal."""
    line = Line()
    before = line.ask(effect(key="k"))
    print(json.dumps("seal now"), flush=True)
    sys.stdin.readline()
    return [before, line.ask(effect(key="k")), *asked(SOCKET, [effect(action=2)])]


def look_around() -> Any:
    """Find the admin descriptor or another way in."""
    descriptors = sorted(set(descriptors_of("self")) - {"0", "1", "2"})
    rows = [row.split() for row in Path("/proc/net/unix").read_text(errors="replace").splitlines()]
    owned = descriptors_of(daemon_pid()).values()
    abstract = [row for row in rows if len(row) > 7 and row[7].startswith("@")]
    # Runs lock their names with abstract sockets at which nobody listens: no way in.
    listening = [row for row in abstract if int(row[3], 16) & ACCEPTS]
    own = [row[7] for row in abstract if f"socket:[{row[6]}]" in owned]
    own += [row[7] for row in listening if "crashp" in row[7] and row[7] not in own]
    names = [SOCKET, WITNESS, "crashpoint", "crashpoint-admin", "admin", "ledger", "invoke.sock"]
    reached = []
    for name in names:
        with socket.socket(socket.AF_UNIX) as sock:
            if sock.connect_ex("\0" + name) == 0:
                reached.append(name)
    environment = sorted(set(os.environ) - {"CRASHPOINT_LEDGER", "CRASHPOINT_TRIAL", "LC_CTYPE"})
    found = {"descriptors": descriptors, "abstract": own + reached, "environment": environment}
    return {"told": [], "found": found}


def daemon_pid() -> int:
    """The far end of the invoke socket, as the kernel says."""
    peer = Line().sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", peer)[0])


def descriptors_of(pid: object) -> dict[str, str]:
    """What a process has open; nothing when it is another uid's."""
    found = {}
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # the one that lists the folder is closed by now
                found[entry.name] = str(entry.readlink())
    return found


def crash_it() -> Any:
    """Bring the daemon down with a request."""
    lines = [b"\xff", b"[" * 100_000, b'{"trial":"\\ud800"}', b"9" * 9_000, b'{"a":NaN}', b"null"]
    lines += [b"x" * (2 << 20), b'{"a":1,"a":2}', b"\0" * 100, b"[1e999]", b'{"id":-0}', b""]
    line = Line()
    return [line.say(text + b"\n") for text in lines]


def edited(edit: Callable[[list[bytes]], list[bytes]]) -> Any:
    """Perform an effect twice, then change the ledger's file behind the daemon's back."""
    told = asked(SOCKET, [effect(action="first"), effect(action="second")])
    return {"told": told, "edited": change_file(edit)}


def killed_and_edited(edit: Callable[[list[bytes]], list[bytes]]) -> Any:
    """The same, with the daemon dead meanwhile."""
    told = asked(SOCKET, [effect(action="first"), effect(action="second")])
    pid = daemon_pid()
    ended = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([ended], [], [], 10)
    return {"told": told, "edited": change_file(edit)}


def change_file(edit: Callable[[list[bytes]], list[bytes]]) -> bool:
    """Change the ledger's file in place; whether that made a difference."""
    with FILE.open("r+b") as file:
        before = file.read().partition(b"\0")[0].splitlines(keepends=True)
        after = edit(before)
        file.seek(0)
        file.write(b"".join(after))
        file.truncate()
    return before != after


def change_a_letter(lines: list[bytes]) -> list[bytes]:
    """Change one letter of the file."""
    return [*lines[:-1], lines[-1].replace(b'"action":"second"', b'"action":"secone"')]


def delete_a_record(lines: list[bytes]) -> list[bytes]:
    """Delete a record from the file."""
    return [*lines[:-2], lines[-1]]


def cut_the_tail(lines: list[bytes]) -> list[bytes]:
    """Cut the tail off the file."""
    return lines[:-1]


def rehash_without_key(lines: list[bytes]) -> list[bytes]:
    """Hash the chain anew without a record."""
    records = [json.loads(line) for line in lines]
    mine = [record for record in records if record["trial"] == records[-1]["trial"]][:-1]
    prev = mine[0]["prev"]
    for record in mine:
        record["prev"] = prev
        body = {name: value for name, value in record.items() if name not in ("hash", "mac")}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        prev = record["hash"] = hashlib.sha256(text.encode()).hexdigest()
        said = f"6:record64:{prev}".encode()
        record["mac"] = hmac.new(TOKEN.encode(), said, "sha256").hexdigest()
    others = [r for r in records if r["trial"] != mine[0]["trial"]]
    return [json.dumps(record).encode() + b"\n" for record in [*others, *mine]]


ATTEMPTS: Final[dict[str, Callable[[], Any]]] = {
    attempt.__name__: attempt
    for attempt in (
        read_over_invoke,
        read_over_witness,
        admin_over_invoke,
        admin_over_witness,
        other_tokens,
        another_peer,
        another_peer_in_the_action,
        a_record_in_the_text,
        a_record_between_lines,
        known_id_other_action,
        known_id_other_process,
        known_id_many_processes,
        tell_new_from_known,
        guess_a_receipt,
        after_the_seal,
        look_around,
        crash_it,
    )
}
EDITS: Final = {
    edit.__name__: edit
    for edit in (change_a_letter, delete_a_record, cut_the_tail, rehash_without_key)
}


def main(name: str) -> None:
    """Run one attempt, or an edit: `live:` while the daemon holds the file, `dead:` after it."""
    how, _, edit = name.rpartition(":")
    if how == "live":
        told = edited(EDITS[edit])
    elif how == "dead":
        told = killed_and_edited(EDITS[edit])
    else:
        told = ATTEMPTS[name]()
    report = told if isinstance(told, dict) else {"told": told}
    print(json.dumps({**report, "pids": PIDS}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
