"""The controller's side of zygotes: start one, fork subjects, signal a subject's whole tree."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crashpoint.inside import tree
from crashpoint.inside import zygote as inside_zygote

__all__ = ["Exit", "Subject", "Zygote", "ZygoteFault"]

READY_S: Final = 120.0
"""Longest wait for an interpreter to import an engine, seconds."""
ANSWER_S: Final = 10.0
"""Longest wait for a zygote or a keeper to do what takes milliseconds, seconds."""


class ZygoteFault(RuntimeError):
    """A zygote or keeper could not do its part; the trial cannot be certified."""


@dataclass(frozen=True)
class Exit:
    """How a subject ended: `code` >= 0 is its exit status, < 0 the signal that ended it."""

    code: int
    leftovers: int
    """Processes of its tree that were still alive then."""


class Subject:
    """A process tree under test: the subject and what it starts, but not the keeper above."""

    def __init__(self, channel: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._channel = channel
        self._keeper = 0
        self._started: asyncio.Future[tuple[int, int]] = loop.create_future()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        self._gone = asyncio.Event()
        channel.setblocking(False)
        loop.add_reader(channel, self._hear)

    async def started(self) -> int:
        """Wait for the fork; returns the subject's process id. Raises ZygoteFault."""
        self._keeper, pid = await asyncio.shield(self._started)
        return pid

    async def exit(self) -> Exit:
        """Wait for the subject to end. Raises ZygoteFault when its keeper died."""
        return await asyncio.shield(self._exit)

    def members(self) -> Sequence[int]:
        """Process ids of the tree that are alive now."""
        return tree.descendants(self._keeper)

    def stop(self) -> Sequence[int]:
        """SIGSTOP the whole tree; returns its process ids."""
        return tree.stop_all(self._keeper)

    def kill(self) -> Sequence[int]:
        """SIGKILL the whole tree, stopped first so that none escapes; returns its process ids."""
        return tree.kill_all(self._keeper)

    def thaw(self) -> None:
        """SIGCONT the whole tree."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    async def release(self) -> None:
        """Have the keeper kill what is left, and wait until all of it and the keeper are gone.

        A keeper that does not answer is killed with all that is below it; raises ZygoteFault then.
        """
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        try:
            # Not `wait_for`: until Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(ANSWER_S):
                await self._gone.wait()
        except TimeoutError:
            if self._keeper:
                self.kill()
                with suppress(ProcessLookupError):
                    os.kill(self._keeper, signal.SIGKILL)
            raise ZygoteFault(f"a keeper did not answer within {ANSWER_S:.0f} s") from None

    def _hear(self) -> None:
        try:
            message = self._channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._fail(ZygoteFault("the keeper of a subject died"))
            self._gone.set()
            return
        heard = json.loads(message)
        if "error" in heard:
            self._fail(ZygoteFault(heard["error"]))
        elif "keeper" in heard:
            self._started.set_result((heard["keeper"], heard["subject"]))
        else:
            self._exit.set_result(Exit(heard["ended"], heard["leftovers"]))

    def _fail(self, fault: ZygoteFault) -> None:
        for future in (self._started, self._exit):
            if not future.done():
                future.set_exception(fault)
                future.exception()  # seen: nobody need wait for it


class Zygote:
    """A running zygote. `facts` is what it read about itself: python, versions, modules."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self.facts: Mapping[str, Any] = {}

    @classmethod
    async def start(
        cls,
        *,
        python: str,
        preload: Sequence[str],
        distributions: Sequence[str],
        errors: Path,
        adopt: Callable[[int], None],
        path: Sequence[str] = (),
    ) -> Zygote:
        """Start an interpreter and import `preload` in it; `errors` receives its stderr.

        `path` is appended to its module search path. Raises ZygoteFault when it does not start or
        cannot import them.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        spec = {"preload": list(preload), "distributions": list(distributions), "path": list(path)}
        with theirs, errors.open("ab") as log:
            try:
                process = subprocess.Popen(
                    # The log's folder is named so that the janitor knows whose process this is.
                    [
                        *(python, inside_zygote.__file__, str(theirs.fileno()), json.dumps(spec)),
                        str(errors.parent),
                    ],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise ZygoteFault(f"cannot start {python}: {error.strerror}") from error
        adopt(process.pid)
        zygote = cls(process, ours)
        try:
            async with asyncio.timeout(READY_S):
                zygote.facts = await _facts(ours)
        except BaseException as error:
            # Nobody waits for what it is doing: it may be deep in an import.
            process.kill()
            await asyncio.shield(zygote.close())
            if isinstance(error, TimeoutError):
                raise ZygoteFault(f"{python} did not get ready in {READY_S:.0f} s") from None
            if isinstance(error, ZygoteFault):
                wanted = f" cannot import {', '.join(preload)}" if preload else ""
                raise ZygoteFault(f"{python}{wanted}: {error}") from None
            raise
        return zygote

    async def fork(self, request: Mapping[str, Any]) -> Subject:
        """Fork a subject; `request` is {entry, args, env, cwd, stdout, stderr, result}."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        subject = Subject(ours)
        with theirs:
            try:
                socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno()])
            except OSError as error:
                subject._fail(ZygoteFault(f"the zygote is gone: {error.strerror}"))  # noqa: SLF001
        try:
            async with asyncio.timeout(ANSWER_S):
                await subject.started()
        except TimeoutError:
            with suppress(OSError):
                ours.shutdown(socket.SHUT_WR)  # should it fork after all, nobody wants that
            raise ZygoteFault(f"the zygote did not answer within {ANSWER_S:.0f} s") from None
        except BaseException:
            await asyncio.shield(subject.release())
            raise
        return subject

    async def close(self) -> None:
        """Let it end, once its keepers have, and wait for it."""
        self._control.close()
        try:
            await asyncio.to_thread(self._process.wait, ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


async def _facts(control: socket.socket) -> Mapping[str, Any]:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(control, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(control)
    facts: dict[str, Any] = json.loads(control.recv(1 << 20) or b'{"error": "it died"}')
    if "error" in facts:
        raise ZygoteFault(facts["error"])
    return facts
