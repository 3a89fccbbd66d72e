"""The client inside subjects: forks, threads, interruptions, other Pythons, a bench that went."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import pytest

import crashpoint.inside.client as client_module
from crashpoint.ledger.oracle import count
from crashpoint.model import Outcome
from integration.ledger.rig import DEADLINE_S, python, running, subject_env

CLIENT = Path(client_module.__file__)


def subject(tmp_path, code, *, command=None):
    """Run code as a subject; returns what it printed and the attempts it made."""

    async def run():
        async with running(tmp_path) as ledger:
            trial = await ledger.open("t-1")
            env = subject_env(ledger, trial.token)
            if command is None:
                printed = await python(code, **env)
            else:
                done = await asyncio.to_thread(
                    subprocess.run,
                    [*command, code],
                    stdout=subprocess.PIPE,
                    env={**os.environ, **env},
                    check=True,
                    timeout=DEADLINE_S,
                )
                printed = [json.loads(line) for line in done.stdout.splitlines()]
            return printed, await trial.seal("note")

    printed, chain = asyncio.run(run())
    assert count(chain, sorted({r["effect"] for r in chain.records if "effect" in r})).void is None
    return printed, [record for record in chain.records if record["kind"] == "attempt"]


def test_an_effect_is_one_attempt_with_a_receipt(tmp_path):
    printed, attempts = subject(
        tmp_path,
        "import json; from crashpoint.inside.client import effect; "
        "print(json.dumps([effect('charge', {'to': 'é'}, key='k'), effect('charge', None)]))",
    )
    ((first, second),) = printed
    assert re.fullmatch(r"[0-9a-f]{64}", first)
    assert first != second
    assert [(a["key"], a["action"]) for a in attempts] == [("k", {"to": "é"}), (None, None)]
    assert attempts[0]["id"] != attempts[1]["id"]


def test_a_fork_shares_no_connection(tmp_path):
    code = """
import json, os
from crashpoint.inside.client import effect
effect("charge", "before")
child = os.fork()
for n in range(50):
    effect("charge", [child == 0, n])
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(json.dumps([os.getpid(), child]))
"""
    ((parent, child),), attempts = subject(tmp_path, code)
    assert len(attempts) == 101
    for attempt in attempts[1:]:
        assert attempt["peer"]["pid"] == (child if attempt["action"][0] else parent)


def test_a_fork_while_another_thread_waits_for_an_answer_blocks_nobody(tmp_path):
    code = """
import os, threading
from crashpoint.inside.client import effect
def work():
    for n in range(200):
        effect("charge", n)
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        effect("charge", "child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    _, attempts = subject(tmp_path, code)
    assert len(attempts) == 220


def test_threads_take_turns(tmp_path):
    code = """
import json, threading
from crashpoint.inside.client import effect
receipts = {}
def work(name):
    for n in range(25):
        receipts[name, n] = effect("charge", [name, n])
threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(set(receipts.values())))
"""
    printed, attempts = subject(tmp_path, code)
    assert printed == [200]
    assert sorted(a["action"] for a in attempts) == [[t, n] for t in range(8) for n in range(25)]


def test_a_late_reply_never_answers_the_next_request(tmp_path):
    code = """
import json, os, signal
from crashpoint.inside import client
class Interrupted(Exception): pass
def interrupt(*_): raise Interrupted
signal.signal(signal.SIGALRM, interrupt)
trial = os.environ["CRASHPOINT_TRIAL"]
receipts = []
interrupted = 0
for n in range(300):
    request = {"trial": trial, "id": str(n), "effect": "charge", "action": 1}
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00001 * (1 + n % 30))
        client._ledger.ask(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        interrupted += 1
    receipts.append([n, client._ledger.ask(request)["receipt"]])
print(json.dumps([interrupted, receipts]))
"""
    ((interrupted, receipts),), attempts = subject(tmp_path, code)
    assert interrupted > 0
    assert len({receipt for _, receipt in receipts}) == 300
    assert len({attempt["id"] for attempt in attempts}) == len(attempts) == 300


def gone(tmp_path, prepare, **env):
    """What a subject is told when the bench is not there."""
    path = tmp_path / "invoke.sock"
    prepare(path)
    code = (
        "import json; from crashpoint.inside.client import effect, BenchRefused\n"
        "try: effect('charge', 1)\n"
        "except BenchRefused as refused: print(json.dumps(str(refused)))"
    )
    full = {"CRASHPOINT_LEDGER": str(path), "CRASHPOINT_TRIAL": "x", **env}
    (said,) = asyncio.run(python(code, **full))
    return said


def nothing(path):
    pass


def a_file(path):
    path.write_bytes(b"")


def nobody_listens(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("prepare", [nothing, a_file, nobody_listens])
def test_a_bench_that_is_gone_is_one_clear_line(tmp_path, prepare):
    said = gone(tmp_path, prepare)
    assert re.fullmatch(r"CRASHPOINT_LEDGER: the bench is gone \(.+\)", said)


@pytest.mark.parametrize("answer", [b"", b'{"receipt":'])
def test_a_bench_that_hangs_up_is_one_clear_line(tmp_path, answer):
    accepted = []

    def hang_up(listener):
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                accepted.append(connection.recv(65536))
                connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))

        def prepare(path):
            listener.settimeout(DEADLINE_S)
            listener.bind(str(path))
            listener.listen()
            thread.start()

        said = gone(tmp_path, prepare)
        thread.join()
    assert said == "CRASHPOINT_LEDGER: the bench is gone (connection closed)"
    assert len(accepted) == 2
    assert accepted[0] == accepted[1], "what is sent again is the same line"


@pytest.mark.parametrize("missing", ["CRASHPOINT_LEDGER", "CRASHPOINT_TRIAL"])
def test_outside_a_bench_it_says_so(tmp_path, monkeypatch, missing):
    code = (
        f"import json, os; os.environ.pop({missing!r})\n"
        "from crashpoint.inside.client import effect, BenchRefused\n"
        "try: effect('charge', 1)\n"
        "except BenchRefused as refused: print(json.dumps(str(refused)))"
    )
    env = {"CRASHPOINT_LEDGER": str(tmp_path / "x"), "CRASHPOINT_TRIAL": "x"}
    (said,) = asyncio.run(python(code, **env))
    assert said == f"{missing} is not set: the bench did not start this process"


def test_a_refusal_is_raised_and_the_connection_goes_on(tmp_path):
    code = """
import json
from crashpoint.inside.client import effect, BenchRefused
said = []
for action in (float("nan"), "\\ud800", "x" * (2 << 20), 10 ** 400):
    try:
        effect("charge", action)
    except BenchRefused as refused:
        said.append(str(refused))
try:
    effect("charge", {1, 2})
except TypeError as error:
    said.append(str(error))
effect("charge", "fine")
print(json.dumps(said))
"""
    (said,), attempts = subject(tmp_path, code)
    assert [a["action"] for a in attempts] == [10**400, "fine"]
    for line, expected in zip(said, ("NaN", "surrogates", "at most", "set"), strict=True):
        assert expected in line


@cache
def interpreters():
    """Every Python from 3.9 on that is to be found."""
    found = {}
    folders = [Path(folder) for folder in os.get_exec_path()]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False)
        folders += sorted(Path(root.stdout.strip(), "versions").glob("*/bin"))
    for folder in folders:
        for minor in range(9, 16):
            path = folder / f"python3.{minor}"
            if minor not in found and os.access(path, os.X_OK):
                done = subprocess.run([path, "-c", "pass"], capture_output=True, check=False)
                if done.returncode == 0:
                    found[minor] = str(path)
    return found


@pytest.mark.parametrize("minor", range(9, 14))
def test_it_runs_under_each_python(tmp_path, minor):
    found = interpreters()
    if minor not in found:
        pytest.skip(f"no Python 3.{minor} here")
    code = (
        "import json, sys, os, warnings; warnings.simplefilter('error')\n"
        f"sys.path.insert(0, {str(CLIENT.parent)!r}); import client\n"
        "child = os.fork()\n"
        "client.effect('charge', 1, key='k')\n"
        "if child == 0: os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(json.dumps(list(sys.version_info[:2])))"
    )
    printed, attempts = subject(tmp_path, code, command=[found[minor], "-I", "-X", "dev", "-c"])
    assert printed == [[3, minor]]
    assert len(attempts) == 2


def test_at_least_this_interpreter_was_tried():
    assert sys.version_info.minor in interpreters()


def test_it_is_short_and_needs_the_standard_library_only():
    assert len(CLIENT.read_text().splitlines()) < 100
    code = (
        f"import json, sys; sys.path.insert(0, {str(CLIENT.parents[2])!r})\n"
        "import crashpoint.inside.client; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, check=True
    )
    modules = json.loads(done.stdout)
    others = {m for m in modules if m.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"__main__", "crashpoint", "crashpoint.inside", "crashpoint.inside.client"}


def test_duplicates_are_what_the_oracle_counts(tmp_path):
    async def run():
        async with running(tmp_path) as ledger:
            trial = await ledger.open("t-1")
            code = "from crashpoint.inside.client import effect; effect('charge', 1)"
            for _ in range(2):
                await python(code, **subject_env(ledger, trial.token))
            return await trial.seal("note")

    assert count(asyncio.run(run()), ["charge"]).outcome is Outcome.DUPLICATED
