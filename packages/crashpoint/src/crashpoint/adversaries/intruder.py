"""The subject of another uid: gives up root for good, then tries everything on daemon and ledger.

Run by path as root: argv is JSON {uid, gid, folder, book, sockets, daemon, controller}. After the
drop it executes and imports nothing, since an interpreter's files need not be readable then. Prints
one JSON line: each try with the errno it met, or null where it succeeded. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

PR_SET_NO_NEW_PRIVS: Final = 38
PTRACE_ATTACH: Final = 16
PTRACE_SEIZE: Final = 0x4206
SYS_PIDFD_GETFD: Final = 438
CAPABILITIES: Final = (b"CapPrm:", b"CapEff:", b"CapAmb:")
CLIB: Final = ctypes.CDLL(None, use_errno=True)

Try = Callable[[], Any]


def main() -> None:
    """Drop, try, report."""
    spec = json.loads(sys.argv[1])
    drop(spec["uid"], spec["gid"])
    identity = {"uids": os.getresuid(), "gids": os.getresgid(), "groups": os.getgroups()}
    tries = on_files(spec)
    for name in ("daemon", "controller"):
        tries |= {what.format(name): how for what, how in on_process(spec[name]).items()}
    # Last: whoever got root back would do to the controller what is tried on it.
    tries |= on_itself()
    if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        tries = {}
    report = {what: met(how) for what, how in tries.items()}
    print(json.dumps({"met": report, **identity, "effect": effect(spec["sockets"])}))


def drop(uid: int, gid: int) -> None:
    """Become another user with no group, no capability and no way back."""
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def met(how: Try) -> str | None:
    """The name of the errno that stopped it, or None when nothing did."""
    try:
        how()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, f"{error.errno}")
    return None


def effect(sockets: str) -> Any:
    """The one thing a subject may do; this must succeed, or the rest shows nothing."""
    request = {
        "trial": os.environ["CRASHPOINT_TRIAL"],
        "id": os.urandom(16).hex(),
        "effect": "probe",
        "action": {"uid": os.getuid()},
    }
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(f"{sockets}/invoke.sock")
            sock.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(sock.makefile().readline() or '{"error": "hung up"}')
    except OSError as error:
        return {"error": f"{error}"}


def on_files(spec: dict[str, Any]) -> dict[str, Try]:
    """What can be tried on the ledger's file, the folders and the sockets."""
    book, sockets = Path(spec["book"]), Path(spec["sockets"])
    ledger, invoke = book / "ledger.jsonl", sockets / "invoke.sock"

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(sockets / "witness.sock"))

    def listen(name: str) -> Try:
        def bind() -> None:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(sockets / name))

        return bind

    return {
        "read the ledger's file": lambda: os.open(ledger, os.O_RDONLY),
        "write the ledger's file": lambda: os.open(ledger, os.O_WRONLY),
        "append to the ledger's file": lambda: os.open(ledger, os.O_WRONLY | os.O_APPEND),
        "cut the ledger's file": lambda: os.truncate(ledger, 0),
        "unlink the ledger's file": ledger.unlink,
        "rename the ledger's file": lambda: ledger.rename(book / "other"),
        "give itself the ledger's file": lambda: os.chown(ledger, os.getuid(), os.getgid()),
        "list the ledger's folder": lambda: list(book.iterdir()),
        "open up the ledger's folder": lambda: book.chmod(0o755),
        "rename the ledger's folder": lambda: book.rename(f"{book}-other"),
        "list the sockets' folder": lambda: list(sockets.iterdir()),
        "list the run's folder": lambda: list(Path(spec["folder"]).iterdir()),
        "connect to witness.sock": connect,
        "unlink invoke.sock": invoke.unlink,
        "rename invoke.sock": lambda: invoke.rename(sockets / "old.sock"),
        "open up witness.sock": lambda: (sockets / "witness.sock").chmod(0o644),
        "make a socket beside invoke.sock": listen("another.sock"),
        "put a link in place of invoke.sock": lambda: (sockets / "link").symlink_to("/dev/null"),
    }


def on_process(pid: int) -> dict[str, Try]:
    """What can be tried on a process of root's; {} stands for its name."""

    def pidfd_getfd() -> None:
        fd = os.pidfd_open(pid)
        try:
            call("syscall", SYS_PIDFD_GETFD, fd, 0, 0)
        finally:
            os.close(fd)

    def read_memory() -> None:
        class Piece(ctypes.Structure):
            _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

        here = ctypes.create_string_buffer(8)
        own = Piece(ctypes.addressof(here), 8)
        # An address that need not be mapped: who may not read is told so before it is looked at.
        call("process_vm_readv", pid, ctypes.byref(own), 1, ctypes.byref(Piece(4096, 8)), 1, 0)

    return {
        "open the memory of the {}": lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
        "write the memory of the {}": lambda: os.open(f"/proc/{pid}/mem", os.O_WRONLY),
        "read the environment of the {}": lambda: Path(f"/proc/{pid}/environ").read_bytes(),
        "read the map of the {}": lambda: Path(f"/proc/{pid}/maps").read_bytes(),
        "list the descriptors of the {}": lambda: list(Path(f"/proc/{pid}/fd").iterdir()),
        "open a descriptor of the {}": lambda: os.open(f"/proc/{pid}/fd/3", os.O_RDWR),
        "take a descriptor of the {}": pidfd_getfd,
        "follow the working folder of the {}": Path(f"/proc/{pid}/cwd").readlink,
        "send SIGTERM to the {}": lambda: os.kill(pid, signal.SIGTERM),
        "send SIGKILL to the {}": lambda: os.kill(pid, signal.SIGKILL),
        "send SIGSTOP to the {}": lambda: os.kill(pid, signal.SIGSTOP),
        "attach to the {}": lambda: call("ptrace", PTRACE_ATTACH, pid, 0, 0),
        "seize the {}": lambda: call("ptrace", PTRACE_SEIZE, pid, 0, 0),
        "read memory of the {} directly": read_memory,
        "limit the resources of the {}": lambda: resource.prlimit(
            pid, resource.RLIMIT_NOFILE, (0, 0)
        ),
    }


def on_itself() -> dict[str, Try]:
    """What can be tried to be root again."""

    def capability() -> None:
        status = [line.split() for line in Path("/proc/self/status").read_bytes().splitlines()]
        held = [int(line[1], 16) for line in status if line and line[0] in CAPABILITIES]
        if len(held) == len(CAPABILITIES) and not any(held):
            raise PermissionError(errno.EPERM, "none is held")

    return {
        "set uid 0": lambda: os.setuid(0),
        "set effective uid 0": lambda: os.seteuid(0),
        "set all uids 0": lambda: os.setresuid(0, 0, 0),
        "set gid 0": lambda: os.setgid(0),
        "join group 0": lambda: os.setgroups([0]),
        "hold a capability": capability,
        "change root": lambda: os.chroot("/proc"),
    }


def call(name: str, *arguments: Any) -> None:
    """A C function that returns -1 and sets errno when it fails; raises OSError."""
    if getattr(CLIB, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
