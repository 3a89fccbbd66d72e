"""Zygotes, keepers and subjects: what is forked, how it is struck, and that all of it ends."""

import asyncio
import json
import os
import select
import signal
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from crashpoint.inside import tree
from crashpoint.procs.zygote import Zygote, ZygoteFault
from events import DEADLINE_S
from leftovers import ended

TESTS = Path(__file__).parents[2]
SUBJECTS = "integration.procs.subjects"


@asynccontextmanager
async def zygote(place, *, preload=(SUBJECTS,), python=sys.executable):
    started = await Zygote.start(
        python=python,
        preload=preload,
        distributions=("pytest",),
        errors=place.out / "zygote.err",
        adopt=lambda pid: None,
        path=(str(TESTS),),
    )
    try:
        yield started
    finally:
        closing = asyncio.create_task(started.close())
        await asyncio.wait({closing}, timeout=DEADLINE_S)
        ended_by_itself = closing.done()
        started._process.kill()
        await closing
        assert ended_by_itself


def request(place, function, n=0, **args):
    output = str(place.out / f"subject{n}")
    return {
        "entry": f"{SUBJECTS}:{function}",
        "args": args,
        "env": {"GIVEN": "hand"},
        "cwd": str(place.out),
        "stdout": f"{output}.out",
        "stderr": f"{output}.err",
        "result": f"{output}.json",
    }


def result(place, n=0):
    return json.loads((place.out / f"subject{n}.json").read_text())


def said(place, n=0):
    return (place.out / f"subject{n}.err").read_text()


async def heard(bell, words=1):
    """Words from as many who ring; they wait until the end."""
    rung = [await asyncio.to_thread(bell.wait) for _ in range(words)]
    return [one.word for one in rung]


def states(pids):
    found = {}
    for pid in pids:
        text = Path(f"/proc/{pid}/stat").read_text()
        found[pid] = text.rpartition(")")[2].split()[0]
    return found


@contextmanager
def watched(pids):
    """Afterwards all of them have ended, seen through descriptors that were opened before."""
    fds = [os.pidfd_open(pid) for pid in pids]
    yield
    deadline = time.monotonic() + DEADLINE_S
    try:
        for fd in fds:
            assert _over(fd, deadline)
    finally:
        for fd in fds:
            os.close(fd)


def _over(fd, deadline):
    return bool(select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0])


def test_a_subject_runs_and_answers(place):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "answer", value=[1, "two"]))
            pid = await subject.started()
            left = await subject.exit()
            await subject.release()
            return started.facts, pid, left

    facts, pid, left = asyncio.run(scenario())
    assert (left.code, left.leftovers) == (0, 0)
    assert result(place) == {
        "value": [1, "two"],
        "cwd": str(place.out),
        "env": "hand",
        "pid": pid,
    }
    assert facts["python"] == sys.version.split()[0]
    assert facts["versions"]["pytest"] == pytest.__version__
    assert facts["modules"] == {SUBJECTS: str(TESTS / "integration/procs/subjects.py")}


def test_each_fork_draws_anew(place):
    async def scenario():
        async with zygote(place) as started:
            for n in range(2):
                subject = await started.fork(request(place, "draw", n))
                await subject.exit()
                await subject.release()

    asyncio.run(scenario())
    assert set(result(place, 0)).isdisjoint(result(place, 1))


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [(None, 0, ""), (3, 3, ""), (300, 44, ""), (-1, 255, ""), ("no more tea", 1, "no more tea\n")],
)
def test_sys_exit_is_what_it_is_elsewhere(place, code, status, words):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "leave", code=code))
            left = await subject.exit()
            await subject.release()
            return left

    assert asyncio.run(scenario()).code == status
    assert said(place) == words


def test_closed_streams_are_no_failure(place):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "close_streams"))
            left = await subject.exit()
            await subject.release()
            return left

    assert asyncio.run(scenario()).code == 0
    assert result(place) == "done"
    assert (place.out / "subject0.out").read_text() == "said before\n"


def test_kill_takes_the_whole_tree(place, bell):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "family", bell=bell.env["BELL"]))
            assert sorted(await heard(bell, 2)) == ["child", "ready"]
            members = set(subject.members())
            with watched(members):
                assert set(subject.kill()) == members
                left = await subject.exit()
                await subject.release()
            return len(members), left

    members, left = asyncio.run(scenario())
    assert members == 4
    assert left.code == -signal.SIGKILL


def test_release_takes_what_an_ended_subject_left(place):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "leave_daemons"))
            left = await subject.exit()
            with watched(subject.members()):
                await subject.release()
            return left

    left = asyncio.run(scenario())
    assert (left.code, left.leftovers) == (0, 2)


@pytest.mark.parametrize("strike", ["kill", "stop"])
def test_none_escapes_while_the_tree_grows(place, bell, strike):
    async def scenario():
        async with zygote(place) as started:
            for _ in range(4):
                asked = request(place, "split", bell=bell.env["BELL"], generations=7)
                subject = await started.fork(asked)
                await heard(bell)
                pids = getattr(subject, strike)()
                if strike == "stop":
                    assert set(states(subject.members()).values()) == {"T"}
                    assert set(subject.members()) == set(pids)
                with watched(subject.members()):
                    await subject.release()
                assert len(place.processes()) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("strike", ["kill", "stop"])
def test_none_escapes_a_process_that_forks_all_the_time(place, bell, strike):
    async def scenario():
        async with zygote(place) as started:
            for _ in range(10):
                subject = await started.fork(
                    request(place, "split_for_ever", bell=bell.env["BELL"])
                )
                await heard(bell)
                pids = getattr(subject, strike)()
                assert set(subject.members()) <= set(pids)
                await subject.release()
                assert len(place.processes()) == 1

    asyncio.run(scenario())


def test_a_process_that_lives_on_in_another_thread_is_seen(place, bell):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "end_first_thread", bell=bell.env["BELL"]))
            await heard(bell)
            pid = await subject.started()
            assert list(subject.members()) == [pid]
            assert states([pid]) == {pid: "Z"}
            subject.kill()
            left = await subject.exit()
            await subject.release()
            return left

    assert asyncio.run(scenario()).code == -signal.SIGKILL


def test_a_frozen_tree_makes_no_progress_until_it_is_thawed(place, bell):
    counter = place.out / "counter"
    counter.write_bytes(bytes(24))

    async def scenario():
        async with zygote(place) as started:
            asked = request(place, "tick", bell=bell.env["BELL"], counter=str(counter))
            subject = await started.fork(asked)
            first = await asyncio.to_thread(bell.wait)
            first.let_go()
            assert len(subject.stop()) == 3
            before = counter.read_bytes()
            assert set(states(subject.members()).values()) == {"T"}
            other = await started.fork(request(place, "draw", 1))
            await other.exit()
            await other.release()
            assert counter.read_bytes() == before
            subject.thaw()
            thawed = await asyncio.to_thread(bell.wait)
            assert thawed.word == "continued"
            thawed.let_go()
            deadline = time.monotonic() + DEADLINE_S
            while not all(map(int.__lt__, _numbers(before), _numbers(counter.read_bytes()))):
                assert time.monotonic() < deadline
            await subject.release()

    asyncio.run(scenario())


def _numbers(data):
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, 24, 8)]


def test_a_killed_keeper_leaves_nothing_and_disturbs_nobody(place, bell):
    async def scenario():
        async with zygote(place) as started:
            struck = await started.fork(request(place, "family", bell=bell.env["BELL"]))
            other = await started.fork(request(place, "family", 1, bell=bell.env["BELL"]))
            await heard(bell, 4)
            alive = other.members()
            with watched(struck.members()):
                os.kill(struck._keeper, signal.SIGKILL)
                with pytest.raises(ZygoteFault, match="the keeper of a subject died"):
                    await struck.exit()
                await struck.release()
            assert set(other.members()) == set(alive)
            again = await started.fork(request(place, "draw", 2))
            assert (await again.exit()).code == 0
            await again.release()
            await other.release()

    asyncio.run(scenario())


def test_without_its_zygote_a_subject_goes_on_and_none_is_forked(place, bell):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "family", bell=bell.env["BELL"]))
            await heard(bell, 2)
            started._process.kill()
            ended(started._process.pid, time.monotonic() + DEADLINE_S)
            with pytest.raises(ZygoteFault, match="the zygote is gone: Broken pipe"):
                await started.fork(request(place, "draw", 1))
            assert len(subject.members()) == 4
            subject.kill()
            left = await subject.exit()
            await subject.release()
            return left

    assert asyncio.run(scenario()).code == -signal.SIGKILL


def test_a_fork_that_is_not_waited_for_leaves_nothing(place, bell):
    async def scenario():
        async with zygote(place) as started:
            asked = request(place, "family", bell=bell.env["BELL"])
            task = asyncio.create_task(started.fork(asked))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scenario())


def test_a_start_that_is_not_waited_for_leaves_nothing(place, bell, monkeypatch):
    monkeypatch.setenv("BELL", bell.env["BELL"])

    async def scenario():
        async def start():
            async with zygote(place, preload=("acceptance.slow_import",)):
                raise AssertionError

        task = asyncio.create_task(start())
        assert await heard(bell) == ["import"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("integration.procs.fails", "RuntimeError: no licence found in this country"),
        ("integration.procs.leaves", "SystemExit: usage: leaves FILE"),
        ("integration.procs.dies", "it died"),
    ],
)
def test_an_import_that_fails_is_one_line(place, module, says):
    async def scenario():
        async with zygote(place, preload=(module,)):
            raise AssertionError

    with pytest.raises(ZygoteFault) as failed:
        asyncio.run(scenario())
    assert str(failed.value) == f"{sys.executable} cannot import {module}: {says}"


def test_an_interpreter_that_is_not_there_is_one_line(place):
    async def scenario():
        async with zygote(place, python="/nowhere/python"):
            raise AssertionError

    with pytest.raises(ZygoteFault, match=r"^cannot start /nowhere/python: No such file"):
        asyncio.run(scenario())


def test_beside_another_thread_nothing_is_forked(place):
    async def scenario():
        async with zygote(place, preload=(SUBJECTS, "integration.procs.threaded")) as started:
            with pytest.raises(ZygoteFault, match="the zygote has 2 threads"):
                await started.fork(request(place, "draw"))

    asyncio.run(scenario())


def test_descendants_spares_who_is_to_be_spared(place, bell):
    async def scenario():
        async with zygote(place) as started:
            subject = await started.fork(request(place, "family", bell=bell.env["BELL"]))
            await heard(bell, 2)
            keeper = subject._keeper
            below = tree.descendants(started._process.pid)
            assert below == [keeper, *subject.members()]
            assert tree.descendants(started._process.pid, spare={keeper}) == []
            await subject.release()

    asyncio.run(scenario())
