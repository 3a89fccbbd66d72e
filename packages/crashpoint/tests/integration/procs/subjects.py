"""What subjects do in these tests: under any interpreter >= 3.9, crashpoint installed or not."""

import ctypes
import importlib.util
import mmap
import os
import random
import signal
import socket
import sys
import threading
from pathlib import Path


def ring(bell, word="ready"):
    """Tell the test; returns when it lets go or its bell is gone."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(bell)
            line.sendall(word.encode())
            line.recv(1)
        except OSError:
            pass


def forever():
    while True:
        signal.pause()


def answer(value):
    return {
        "value": value,
        "cwd": str(Path.cwd()),
        "env": os.environ.get("GIVEN"),
        "pid": os.getpid(),
    }


def draw():
    return [random.random(), os.urandom(4).hex()]


def leave(code):
    sys.exit(code)


def close_streams():
    print("said before")
    sys.stdout.close()
    sys.stderr.close()
    return "done"


def interpreter():
    """What a subject is told of itself, and whether our plain module names are in its way."""
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "visible": [n for n in ("client", "tree", "zygote") if importlib.util.find_spec(n)],
        "client": importlib.import_module("crashpoint.inside.client").__name__,
    }


def detach():
    """A daemon, as daemons detach."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            forever()
        os._exit(0)
    os.wait()


def family(bell):
    """A child, a grandchild and a daemon beside the subject: four processes."""
    if os.fork() == 0:
        if os.fork() == 0:
            forever()
        ring(bell, "child")
        forever()
    detach()
    ring(bell)
    forever()


def leave_daemons():
    detach()
    detach()
    return "done"


def split(bell, generations):
    """2 ** generations processes; the first rings while the others still split."""
    me = os.getpid()
    for generation in range(generations):
        os.fork()
        if generation == 1 and os.getpid() == me:
            threading.Thread(target=ring, args=(bell,), daemon=True).start()
    forever()


def split_for_ever(bell):
    """A process that has a child do its work all the time, from several threads."""

    def work():
        while True:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    ring(bell)
    forever()


def tick(bell, counter):
    """Three processes count in a file; the first rings, and again when it is continued."""
    with Path(counter).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 24)
    place = 0
    for child in (1, 2):
        if place == 0 and os.fork() == 0:
            place = child
    if place == 0:
        signal.signal(signal.SIGCONT, lambda *_: ring(bell, "continued"))
        ring(bell)
    at = place * 8
    while True:
        value = int.from_bytes(shared[at : at + 8], "little") + 1
        shared[at : at + 8] = value.to_bytes(8, "little")


def end_first_thread(bell):
    """The process goes on in another thread when its first one has ended: a zombie by its state."""

    first = Path(f"/proc/{os.getpid()}/stat")

    def work():
        while first.read_text().rpartition(")")[2].split()[0] != "Z":
            os.sched_yield()
        ring(bell)
        threading.Event().wait()

    threading.Thread(target=work).start()
    ctypes.CDLL(None).pthread_exit(None)
