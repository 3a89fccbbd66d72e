"""What can be done to a process tree that stands at a point. The controller does it, from outside.

A subject that signalled itself from one thread could go on for a moment in that thread; here the
announcing thread waits on a socket while another process delivers the fault to the whole tree.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from crashpoint.model import FaultKind
from crashpoint.pipeline.points import Reached

__all__ = ["FAULTS", "Fault", "Fired", "ProcessTree"]


class ProcessTree(Protocol):
    """The part of a subject that a fault may touch."""

    def stop(self) -> Sequence[int]:
        """SIGSTOP all of it."""
        ...

    def kill(self) -> Sequence[int]:
        """SIGKILL all of it."""
        ...


@dataclass(frozen=True)
class Fired:
    """A fault that was delivered: at which point, when, to how many processes."""

    point: str
    at_ns: int
    """Wall clock when delivery began."""
    took_us: int
    """Until every signal was sent."""
    pids: int
    announced_within: bool
    """Whether the announcing process was one of the tree."""


class Fault(Protocol):
    """One kind of fault. `ends_process`: the first process dies of it, so recovery starts alone."""

    kind: FaultKind
    ends_process: bool

    async def deliver(self, at: Reached, subject: ProcessTree) -> Fired:
        """Do it to the whole tree; returns what was done."""
        ...


class _Signalled:
    def __init__(self, kind: FaultKind, *, ends_process: bool) -> None:
        self.kind = kind
        self.ends_process = ends_process

    async def deliver(self, at: Reached, subject: ProcessTree) -> Fired:
        at_ns, begun = time.time_ns(), time.perf_counter_ns()
        pids = subject.kill() if self.ends_process else subject.stop()
        took_us = (time.perf_counter_ns() - begun) // 1000
        return Fired(at.point.name, at_ns, took_us, len(pids), at.pid in pids)


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        FaultKind.KILL: _Signalled(FaultKind.KILL, ends_process=True),
        FaultKind.FREEZE: _Signalled(FaultKind.FREEZE, ends_process=False),
    }
)
"""Every fault by name."""
