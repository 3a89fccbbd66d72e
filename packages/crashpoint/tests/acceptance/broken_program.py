"""What misbehaving subjects do. Runs inside them; each function is a first process or a recovery.

They are variations of the naive control: one effect, then one record of it, in a JSON file.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from crashpoint.adapters.controls import program
from crashpoint.inside import client
from crashpoint.inside.client import effect, reach

ACTION = {"charge": "order-7", "cents": 1999}


def first(how, state):
    return FIRST.get(how, well)(_Store(state))


def again(how, state):
    return AGAIN.get(how, well)(_Store(state))


def refuse():
    raise RuntimeError("nobody is at home")


def well(store):
    if not store.get("completed"):
        reach("b0")
        effect("charge", ACTION)
        reach("b1")
        store.put("completed", True)
        reach("b2")
    return {"paid": True}


def ring(word):
    """Tell the test, and wait until it lets go; without a bell, go on."""
    if "BELL" not in os.environ:
        return
    with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
        line.connect(os.environ["BELL"])
        line.sendall(word.encode())
        line.recv(1)


def _Store(state):  # noqa: N802
    return program._Store(str(Path(state, program.STORE)), keeps=True)


def _forever():
    while True:
        signal.pause()


def _ends_early(store):
    return {"paid": True}


def _hangs(store):
    sys.stderr.write("waiting for a bus\n")
    sys.stderr.flush()
    _forever()


def _segfaults(store):
    ctypes.string_at(0)


def _exits_3(store):
    os._exit(3)


def _leaves(store):
    sys.exit("no charge today")


def _runs_out_of_memory(store):
    raise MemoryError


def _raises(store):
    raise ValueError("twelve is not a colour")


def _catches_everything(store):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            return well(store)
        except BaseException:  # noqa: BLE001
            pass


def _runs_threads(store):
    def work():
        while True:
            if os.fork() == 0:
                os._exit(0)
            os.wait()

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    return well(store)


def _starts_processes(store):
    """Children and grandchildren that would complete the run if they were left alive."""
    for _ in range(3):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
            _forever()
    return well(store)


def _prints_garbage(store):
    line = b"\x1b[31m\xff\x00" * 1000 + b"\n"
    for _ in range(500):
        os.write(1, line)
        os.write(2, line)
    return well(store)


def _closes_everything(store):
    reach("b0")
    os.closerange(0, 1000)
    effect("charge", ACTION)
    reach("b1")
    store.put("completed", True)
    return {"paid": True}


def _hangs_up(store):
    """Does not wait for the answer, and does nothing more."""
    reach("b0")
    effect("charge", ACTION)
    _say(b'{"trial":"%s","point":"b1"}\n' % os.environb[b"CRASHPOINT_TRIAL"]).close()
    _forever()


def _speaks_for_another(store):
    _say(b'{"trial":"%s","point":"b1"}\n' % (b"0" * 32)).close()
    client._points.ask({"trial": "0" * 32, "point": "b1"})


def _lends_its_token(store):
    reach("b0")
    effect("charge", ACTION)
    _meeting_place(store).write_text(os.environ["CRASHPOINT_TRIAL"])
    _forever()


def _speaks_for_its_neighbour(store):
    """Announces in the name of a trial that waits for nobody, and goes on with its own."""
    token = _meeting_place(store).read_text()
    with _say(b'{"trial":"%s","point":"b1"}\n' % token.encode()) as line:
        line.recv(100)
    return well(store)


def _meeting_place(store):
    path = Path(store._path).parents[3] / "meeting"
    with suppress(FileExistsError):
        os.mkfifo(path)
    return path


def _speaks_garbage(store):
    for said in (b"\x00\xff\n", b"[]\n", b'{"trial":1}\n', b"{" * 100_000 + b"\n", b"b1"):
        with suppress(OSError):
            _say(said).close()
    return well(store)


def _says_too_much(store):
    """Never reads an answer."""
    line = _say(b"")
    line.settimeout(0.2)
    with suppress(OSError):
        while True:
            line.sendall(b"what?\n" * 1000)
    return well(store)


def _invents_a_point(store):
    reach("b9")


def _goes_round_and_round(store):
    while True:
        reach("b0")


def _persists_early(store):
    reach("b0")
    store.put("completed", True)
    effect("charge", ACTION)
    reach("b1")


def _skips_the_effect(store):
    reach("b0")
    reach("b1")
    _forever()


def _refunds(store):
    effect("refund", ACTION)
    return well(store)


def _kills_its_keeper(store):
    _detach()
    os.kill(os.getppid(), signal.SIGKILL)
    _forever()


def _rings(store):
    ring("first")
    return well(store)


def _detach():
    """A daemon, as daemons detach: two forks and a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _forever()
        os._exit(0)
    os.wait()


def _recovery_hangs(store):
    ring("recovery")
    _hangs(store)


def _leaves_daemons(store):
    _detach()
    _detach()
    return well(store)


def _goes_wrong(store):
    well(store)
    return {"paid": "twice"}


def _does_nothing(store):
    return None


def _says_no_number(store):
    well(store)
    return {"paid": float("nan")}


def _says_too_deep(store):
    well(store)
    deep = []
    for _ in range(120):
        deep = [deep]
    return deep


def _says_a_book(store):
    well(store)
    return "x" * (2 << 20)


def _hangs_when_thawed(store):
    reach("b0")
    effect("charge", ACTION)
    reach("b1")
    _hangs(store)


def _say(data):
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["CRASHPOINT_POINTS"])
    line.sendall(data)
    return line


def _skips_a_point(store):
    reach("b0")
    effect("charge", ACTION)
    reach("b1")
    store.put("completed", True)
    return {"paid": True}


def _repeats_a_point(store):
    reach("b0")
    return well(store)


FIRST = {
    "reference_fails": _raises,
    "reference_skips": _skips_a_point,
    "reference_repeats": _repeats_a_point,
    "ends_early": _ends_early,
    "hangs": _hangs,
    "segfaults": _segfaults,
    "exits_3": _exits_3,
    "leaves": _leaves,
    "runs_out_of_memory": _runs_out_of_memory,
    "raises": _raises,
    "catches_everything": _catches_everything,
    "runs_threads": _runs_threads,
    "starts_processes": _starts_processes,
    "prints_garbage": _prints_garbage,
    "closes_everything": _closes_everything,
    "hangs_up": _hangs_up,
    "speaks_for_another": _speaks_for_another,
    "lends_its_token": _lends_its_token,
    "speaks_for_its_neighbour": _speaks_for_its_neighbour,
    "speaks_garbage": _speaks_garbage,
    "says_too_much": _says_too_much,
    "invents_a_point": _invents_a_point,
    "goes_round_and_round": _goes_round_and_round,
    "persists_early": _persists_early,
    "skips_the_effect": _skips_the_effect,
    "refunds": _refunds,
    "kills_its_keeper": _kills_its_keeper,
    "rings": _rings,
    "hangs_when_thawed": _hangs_when_thawed,
}
AGAIN = {
    "recovery_hangs": _recovery_hangs,
    "recovery_fails": _raises,
    "leaves_daemons": _leaves_daemons,
    "goes_wrong": _goes_wrong,
    "does_nothing": _does_nothing,
    "says_no_number": _says_no_number,
    "says_too_deep": _says_too_deep,
    "says_a_book": _says_a_book,
}
