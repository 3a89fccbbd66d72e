"""Small programs that save and call in unusual ways: most are right, those in WRONG are not.

All do the same calls with keys, unless said otherwise, and remember which are done.
"""
# ruff: noqa: PTH105, PTH108, PTH109, PTH110, PTH115, PTH123, PTH211, SIM115

import asyncio
import atexit
import fcntl
import itertools
import json
import logging
import multiprocessing
import os
import queue
import random
import shelve
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from crashpoint.testing import call_key, tracker

CALLS = (
    ("c1", "file", "login fails"),
    ("c2", "file", "export stops"),
)


def do(service, call, *, key=True):
    call_id, _, text = call
    return service.file(text, key=call_key("odd", call_id) if key else None)


def load(path="state.json"):
    return json.loads(Path(path).read_text()) if os.path.exists(path) else []


def save(state, aside="state.json.tmp"):
    Path(aside).write_text(json.dumps(state))
    os.replace(aside, "state.json")


def step_by_step(service, perform=do, keep=save):
    state = load()
    for call in CALLS[len(state) :]:
        state.append(perform(service, call))
        keep(state)
    return len(state)


# Temporary files.


def process_id_in_a_name(tracker):
    def keep(state):
        save(state, f"state.json.{os.getpid()}.tmp")

    return step_by_step(tracker, keep=keep)


def uuid_in_a_name(tracker):
    def keep(state):
        save(state, f".{uuid.uuid4()}")

    return step_by_step(tracker, keep=keep)


def named_temporary_file(tracker):
    def keep(state):
        with tempfile.NamedTemporaryFile("w", dir=".", prefix="state-", delete=False) as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, "state.json")

    return step_by_step(tracker, keep=keep)


def temporary_file_by_descriptor(tracker):
    def keep(state):
        descriptor, name = tempfile.mkstemp(dir=os.getcwd())
        with os.fdopen(descriptor, "w") as file:
            json.dump(state, file)
        os.replace(name, "state.json")

    return step_by_step(tracker, keep=keep)


def scratch_elsewhere(tracker):
    """What lies outside the state folder is written in place, half a dozen times; nobody cares."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            Path(folder, f"draft-{number}").write_text("x" * 20_000)
        return step_by_step(tracker)


def symbolic_link(tracker):
    """The state is what `current` leads to."""
    done = int(os.readlink("current").rpartition("-")[2]) if os.path.lexists("current") else 0
    for number, call in enumerate(CALLS[done:], start=done + 1):
        Path(f"state-{number}").write_text(str(do(tracker, call)))
        if os.path.lexists("next"):
            os.unlink("next")
        os.symlink(f"state-{number}", "next")
        os.replace("next", "current")
    return len(CALLS)


# Journals.


def lines_done():
    return len(Path("journal").read_text().splitlines()) if os.path.exists("journal") else 0


def journal_kept_open(tracker):
    done = lines_done()
    file = open("journal", "a")
    for call in CALLS[done:]:
        do(tracker, call)
        file.write(call[0] + "\n")
        file.flush()
        os.fsync(file.fileno())
    file.close()
    return len(CALLS)


def journal_kept_open_and_written_first(tracker):
    done = lines_done()
    file = open("journal", "a")
    for call in CALLS[done:]:
        file.write(call[0] + "\n")
        file.flush()
        os.fsync(file.fileno())
        do(tracker, call)
    file.close()
    return len(CALLS)


def journal_that_is_never_flushed(tracker):
    """And no keys: what stood in the buffer dies with the process."""
    done = lines_done()
    with open("journal", "a") as file:
        for call in CALLS[done:]:
            do(tracker, call, key=False)
            file.write(call[0] + "\n")
    return len(CALLS)


def journal_printed_by_line(tracker):
    done = lines_done()
    with open("journal", "a", buffering=1) as file:
        for call in CALLS[done:]:
            do(tracker, call)
            print(call[0], file=file)
    return len(CALLS)


def journal_by_descriptor(tracker):
    done = lines_done()
    descriptor = os.open("journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for call in CALLS[done:]:
        do(tracker, call)
        os.write(descriptor, f"{call[0]}\n".encode())
        os.fsync(descriptor)
    os.close(descriptor)
    return len(CALLS)


def journal_by_descriptor_and_written_first(tracker):
    done = lines_done()
    descriptor = os.open("journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for call in CALLS[done:]:
        os.write(descriptor, f"{call[0]}\n".encode())
        do(tracker, call)
    os.close(descriptor)
    return len(CALLS)


# Databases.


def opened(**options):
    connection = sqlite3.connect("journal.db", **options)
    connection.execute("create table if not exists done (id text primary key)")
    connection.commit()
    done = {row[0] for row in connection.execute("select id from done")}
    return closing(connection), [call for call in CALLS if call[0] not in done]


def database(tracker):
    connecting, calls = opened()
    with connecting as connection:
        for call in calls:
            do(tracker, call)
            with connection:
                connection.execute("insert into done values (?)", (call[0],))
    return len(CALLS)


def database_in_one_transaction(tracker):
    """In write-ahead mode, with the request inside the transaction."""
    connecting, calls = opened(isolation_level=None)
    with connecting as connection:
        connection.execute("pragma journal_mode = wal")
        for call in calls:
            connection.execute("begin immediate")
            connection.execute("insert into done values (?)", (call[0],))
            do(tracker, call)
            connection.execute("commit")
    return len(CALLS)


def database_that_commits_first(tracker):
    connecting, calls = opened()
    with connecting as connection:
        for call in calls:
            with connection:
                connection.execute("insert into done values (?)", (call[0],))
            do(tracker, call)
    return len(CALLS)


def database_without_keys(tracker):
    connecting, calls = opened()
    with connecting as connection:
        for call in calls:
            do(tracker, call, key=False)
            with connection:
                connection.execute("insert into done values (?)", (call[0],))
    return len(CALLS)


def shelf(tracker):
    with shelve.open("shelf") as kept:
        for call in CALLS:
            if call[0] not in kept:
                kept[call[0]] = do(tracker, call)
                kept.sync()
        return len(kept)


def shelf_filled_first(tracker):
    with shelve.open("shelf") as kept:
        for call in CALLS:
            if call[0] not in kept:
                kept[call[0]] = "done"
                kept.sync()
                do(tracker, call)
        return len(kept)


# Locks and work in files.


class KernelLock:
    """Held until its process ends, and only then: it is part of a cycle."""

    def __init__(self):
        self.file = open("lock", "w")
        self.itself = self
        fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def locked_by_the_kernel(tracker):
    KernelLock()
    return step_by_step(tracker)


def locked_by_a_file(tracker):
    """Which a killed process leaves behind, so that nobody ever starts again."""
    os.close(os.open("lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        return step_by_step(tracker)
    finally:
        os.unlink("lock")


def filled_inbox():
    inbox = Path("inbox")
    if not inbox.exists():
        draft = Path("inbox.draft")
        draft.mkdir(exist_ok=True)
        for call in CALLS:
            (draft / call[0]).write_text(json.dumps(call))
        draft.rename(inbox)
    return sorted(inbox.iterdir())


def inbox(tracker):
    for paper in filled_inbox():
        do(tracker, json.loads(paper.read_text()))
        paper.unlink()
    return len(CALLS)


def inbox_emptied_first(tracker):
    for paper in filled_inbox():
        call = json.loads(paper.read_text())
        paper.unlink()
        do(tracker, call)
    return len(CALLS)


# Threads, tasks, processes.

POOL = ThreadPoolExecutor(1)


def pool_of_the_module(tracker):
    return step_by_step(tracker, lambda *call: POOL.submit(do, *call).result())


def pool_of_its_own(tracker):
    with ThreadPoolExecutor(1) as pool:
        return step_by_step(tracker, lambda *call: pool.submit(do, *call).result())


def thread_for_each_call(tracker):
    def perform(service, call):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(do(service, call)))
        thread.start()
        thread.join()
        return answers[0]

    return step_by_step(tracker, perform)


def thread_that_works_on(tracker):
    """The function is over long before the work is; a process waits for its threads."""
    threading.Thread(target=step_by_step, args=(tracker,)).start()


def worker_with_a_queue(tracker):
    state, todo = load(), queue.Queue()

    def work():
        while (call := todo.get()) is not None:
            state.append(do(tracker, call))
            save(state)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    for call in [*CALLS[len(state) :], None]:
        todo.put(call)
    worker.join()
    return len(state)


async def tasks(tracker):
    state = dict(load())

    async def perform(call):
        await asyncio.sleep(0)
        state[call[0]] = do(tracker, call)
        save(list(state.items()))

    await asyncio.gather(*[perform(call) for call in CALLS if call[0] not in state])
    return len(state)


async def a_thread_at_a_time(tracker):
    state = load()
    for call in CALLS[len(state) :]:
        state.append(await asyncio.to_thread(do, tracker, call))
        save(state)
    return len(state)


def subprocess_tool():
    """The tool is a process of its own; what it announces is not this one's."""
    code = (
        "from crashpoint.testing import tracker\n"
        "from sweep_agents import odd\n"
        "print(odd.do(tracker(), {!r}))"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])

    def perform(_service, call):
        command = [sys.executable, "-c", code.format(call)]
        done = subprocess.run(
            command,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        return int(done.stdout)

    return step_by_step(None, perform)


def forked_tool():
    """Each call is made by a child that is forked for it."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def perform(_service, call):
        child = context.Process(target=lambda: answers.put(do(tracker(), call)))
        child.start()
        child.join()
        return answers.get()

    return step_by_step(None, perform)


# Memory.

CACHE = {}
SEEN = set()
NUMBERS = itertools.count(1)
FEED = iter(CALLS)
DRAWS = random.Random(7)
log = logging.getLogger("sweep_agents.odd")


def cached_state(tracker):
    """A process reads its state once."""
    state = CACHE.setdefault("state", load())
    for call in CALLS[len(state) :]:
        state.append(do(tracker, call))
        save(state)
    return len(state)


def state_in_memory(tracker):
    """Nothing is kept, and nothing has a key."""
    for call in CALLS:
        if call[0] not in SEEN:
            do(tracker, call, key=False)
            SEEN.add(call[0])
    Path("finished").touch()
    return len(SEEN)


def numbered_by_the_process(tracker):
    """The n-th call of a process has the n-th number, from which its key is made."""
    numbers = [f"{next(NUMBERS)} {DRAWS.random()}" for _ in CALLS]
    state = load()
    for number, call in list(zip(numbers, CALLS, strict=True))[len(state) :]:
        state.append(tracker.file(call[2], key=call_key("odd", number)))
        save(state)
    return len(state)


def fed_by_the_module(tracker):
    state = load()
    for number, call in enumerate(FEED):
        if number >= len(state):
            state.append(do(tracker, call))
            save(state)
    return len(state)


@dataclass
class Worker:
    """A program that is the method of an object."""

    state: list[int] = field(default_factory=list)
    is_loaded: bool = False

    def work(self, tracker):
        if not self.is_loaded:
            self.state += load()
            self.is_loaded = True
        for call in CALLS[len(self.state) :]:
            self.state.append(do(tracker, call))
            save(self.state)
        return len(self.state)


method_of_an_object = Worker().work


def working_directory_and_environment(tracker):
    """It goes elsewhere and notes that in its environment, as a process may."""
    assert "ODD_PROGRAM" not in os.environ
    os.environ["ODD_PROGRAM"] = "1"
    Path("below").mkdir(exist_ok=True)
    os.chdir("below")
    return step_by_step(tracker)


def log_file(tracker):
    """With times in it, so that no two runs leave the same files."""
    handler = logging.FileHandler("run.log")
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)d %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

    def perform(service, call):
        log.info("%s", call)
        return do(service, call)

    return step_by_step(tracker, perform)


# A tracker without keys that shows late what it has done.


def looks_up_until_it_is_sure(tracker):
    """Nothing found means something only once the request would show by now.

    It was sent by a process that is dead, so before this one began; when exactly nobody knows.
    """
    began = time.monotonic()
    state = dict(load()) or {"done": [], "is_sent": False}
    for call in CALLS[len(state["done"]) :]:
        _, op, text = call
        number = None
        while state["is_sent"] and number is None:
            seen = tracker.find(op, {"title": text}, age_s=time.monotonic() - began)
            if seen["found"]:
                number = seen["ids"][0]
            elif seen["final"]:
                break
            else:
                time.sleep(0.005)
        if number is None:
            state["is_sent"] = True
            save(list(state.items()))
            number = do(tracker, call)
        state["done"].append(number)
        state["is_sent"] = False
        save(list(state.items()))
    return len(state["done"])


def takes_nothing_found_for_an_answer(tracker):
    state = dict(load()) or {"done": [], "is_sent": False}
    for call in CALLS[len(state["done"]) :]:
        _, op, text = call
        seen = {"found": False}
        if state["is_sent"]:
            seen = tracker.find(op, {"title": text})
        state["is_sent"] = True
        save(list(state.items()))
        state["done"].append(seen["ids"][0] if seen["found"] else do(tracker, call))
        state["is_sent"] = False
        save(list(state.items()))
    return len(state["done"])


# What a run says.


def nothing_said_when_done(tracker):
    state = load()
    if len(state) == len(CALLS):
        return None
    return {"filed": step_by_step(tracker)}


def times_in_the_text(tracker):
    """The texts are other ones in each run, and the same throughout one."""
    state = dict(load())
    if not state:
        state["plan"] = [f"{text} at {time.time_ns()}" for _, _, text in CALLS]
        state["done"] = []
        save(list(state.items()))
    for number, text in enumerate(state["plan"][len(state["done"]) :], start=len(state["done"])):
        state["done"].append(tracker.file(text, key=call_key("odd", str(number))))
        save(list(state.items()))
    return len(state["done"])


def leaves_by_exit(tracker):
    step_by_step(tracker)
    sys.exit(0)


def tells_at_exit(tracker):
    """Its last call is made by what it registered for its end."""
    atexit.register(do, tracker, ("bye", "file", "it has ended"))
    return step_by_step(tracker)


def saves_whatever_happens(tracker):
    """The end of `finally` never comes for a killed process. No keys."""
    state = load()
    try:
        for call in CALLS[len(state) :]:
            state.append(do(tracker, call, key=False))
    finally:
        save(state)
    return len(state)


RIGHT = (
    process_id_in_a_name,
    uuid_in_a_name,
    named_temporary_file,
    temporary_file_by_descriptor,
    scratch_elsewhere,
    symbolic_link,
    journal_kept_open,
    journal_printed_by_line,
    journal_by_descriptor,
    database,
    database_in_one_transaction,
    shelf,
    locked_by_the_kernel,
    inbox,
    pool_of_the_module,
    pool_of_its_own,
    thread_for_each_call,
    thread_that_works_on,
    worker_with_a_queue,
    tasks,
    a_thread_at_a_time,
    cached_state,
    numbered_by_the_process,
    fed_by_the_module,
    method_of_an_object,
    working_directory_and_environment,
    log_file,
    nothing_said_when_done,
    times_in_the_text,
    leaves_by_exit,
    tells_at_exit,
)
WRONG = (
    (journal_kept_open_and_written_first, "LOST"),
    (journal_that_is_never_flushed, "DUPLICATED"),
    (journal_by_descriptor_and_written_first, "LOST"),
    (database_that_commits_first, "LOST"),
    (database_without_keys, "DUPLICATED"),
    (shelf_filled_first, "LOST"),
    (locked_by_a_file, "VOID"),
    (inbox_emptied_first, "LOST"),
    (state_in_memory, "DUPLICATED"),
    (saves_whatever_happens, "DUPLICATED"),
)
ONLY_FORKED = (subprocess_tool, forked_tool)
"""Right, and not to be swept in this process: receivers are no processes there."""
