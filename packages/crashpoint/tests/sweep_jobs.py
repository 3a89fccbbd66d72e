"""Programs that tests sweep: a few that behave, and one of each kind that does not."""

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from crashpoint.testing import point

STATE = Path("state.json")


def careful(tracker):
    """Two requests with keys, and a result."""
    done = json.loads(STATE.read_text()) if STATE.exists() else 0
    for n in range(done, 2):
        tracker.file(f"issue {n}", key=f"run/{n}")
        save(n + 1)
    return {"filed": 2}


def careless(tracker):
    """The same without keys: a crash between a request and its save does it twice."""
    done = json.loads(STATE.read_text()) if STATE.exists() else 0
    for n in range(done, 2):
        tracker.file(f"issue {n}")
        save(n + 1)
    return {"filed": 2}


def hasty(tracker):
    """Saves first and sends then: a crash between the two loses a request."""
    done = json.loads(STATE.read_text()) if STATE.exists() else 0
    for n in range(done, 2):
        save(n + 1)
        tracker.file(f"issue {n}", key=f"run/{n}")
    return {"filed": 2}


def forgetful(tracker):
    """Does everything once and reports what only a run without a crash can know."""
    was_there = STATE.exists()
    save(1)
    tracker.file("issue", key="run/0")
    return {"resumed": was_there}


async def in_tasks(tracker):
    """Two tools at once."""

    async def tool(n):
        tracker.file(f"issue {n}", key=f"run/{n}")

    await asyncio.gather(tool(1), tool(2))
    return 2


def save(value):
    """Write aside and rename."""
    draft = STATE.with_suffix(".tmp")
    draft.write_text(json.dumps(value))
    draft.replace(STATE)


# The ones that do not behave.


def never_ends(tracker):
    tracker.file("a", key="a")
    while True:
        time.sleep(0.01)


def never_ends_and_tells():
    while True:
        point("reply")


def prints_megabytes(tracker):
    print("x" * 3_000_000)
    print("y" * 3_000_000, file=sys.stderr)
    tracker.file("a", key="a")


def leaves_daemons(tracker):
    tracker.file("a", key="a")
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    tracker.file("b", key="b")


def catches_everything(tracker):
    for n in range(2):
        try:
            tracker.file(f"issue {n}", key=str(n))
        except BaseException:  # noqa: BLE001
            continue


def catches_everything_for_ever(tracker):
    def try_again(_number):
        try:
            time.sleep(0.05)
            tracker.file("a", key="a")
        except BaseException:  # noqa: BLE001
            return

    for _ in map(try_again, itertools.count()):
        pass


def ignores_sigterm(tracker):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tracker.file("a", key="a")


def uses_a_thread(tracker):
    thread = threading.Thread(target=tracker.file, args=("a",), kwargs={"key": "a"})
    thread.start()
    thread.join()


def has_no_point():
    return 1


def fails_without_a_crash(tracker):
    tracker.file("a", key="a")
    raise ValueError("no good")


def cannot_read_its_state(tracker):
    if STATE.exists():
        raise RuntimeError("what is this state?")
    save(1)
    tracker.file("a", key="a")


def hangs_when_resumed(tracker):
    while STATE.exists():
        time.sleep(0.01)
    save(1)
    tracker.file("a", key="a")


def leaves_with_success(tracker):
    tracker.file("a", key="a")
    sys.exit(0)


def leaves_with_failure(tracker):
    tracker.file("a", key="a")
    sys.exit(3)


def meets_nobody():
    from crashpoint.receivers.client import HttpTransport, Tracker

    Tracker(HttpTransport("http://127.0.0.1:1")).file("a")


def returns_much(tracker):
    tracker.file("a", key="a")
    return ["r" * 1000] * 1000


def wants_more(tracker, model):
    tracker.file(model)


class Drawing:
    """A job that passes another point each time; with `after` only once there is a state."""

    def __init__(self, counter, *, after=False):
        self.counter = counter
        self.after = after

    def __call__(self, tracker):
        if STATE.exists() or not self.after:
            number = int(self.counter.read_text()) + 1
            self.counter.write_text(str(number))
            point(f"drawn-{number}")
        save(1)
        tracker.file("a", key="a")
