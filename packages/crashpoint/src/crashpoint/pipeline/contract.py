"""What an adapter is to the pipeline: rows, how to start and recover them, what the engine says.

The pipeline knows engines only through this protocol; adapters import it, never the other way
round.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from crashpoint.model import Declaration

__all__ = [
    "Adapter",
    "Endpoints",
    "EnvSpec",
    "FinalState",
    "Launch",
    "Row",
    "StoreReading",
    "Trial",
]

Endpoints = Mapping[str, str]
"""Addresses of an engine's servers by name; empty for an engine without servers."""


@dataclass(frozen=True)
class Row:
    """A runtime variant under test: its name and what it declares of itself."""

    name: str
    declaration: Declaration


@dataclass(frozen=True)
class EnvSpec:
    """The interpreter subjects run under, and what its zygote imports before it forks."""

    preload: Sequence[str] = ()
    """Modules imported once; a hot standby has them, a cold start imports them itself."""
    distributions: Sequence[str] = ()
    """Packages whose version is read inside the subject and written into evidence."""
    python: str = sys.executable
    path: Sequence[str] = ()
    """Folders appended to its module search path."""


@dataclass(frozen=True)
class Launch:
    """One process to run: `entry` is "module:function", called with `args` (JSON)."""

    entry: str
    args: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    cold: bool = False
    """Start a fresh interpreter instead of forking a warmed one."""


@dataclass(frozen=True)
class Trial:
    """What an adapter may use while it serves one trial."""

    name: str
    state: Path
    """Folder of the subject's durable state; survives the fault."""
    endpoints: Endpoints
    probe: Callable[[Launch], Awaitable[Any]]
    """Run an entry that only reads, in a process of its own, and return its result.

    Raises ProbeFailed when it does not end well.
    """


@dataclass(frozen=True)
class StoreReading:
    """The engine's own store between fault and recovery: whether it holds the completion."""

    recorded: bool
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class FinalState:
    """The engine's word on a run after recovery, and the result it reports.

    `result` holds nothing that differs between two right runs (drawn values, identities): it is
    compared with an uncrashed run's.
    """

    finished: bool
    result: Any
    facts: Mapping[str, Any]


class Adapter(Protocol):
    """One engine. Registered in `crashpoint.adapters.registry`."""

    name: str
    effects: Sequence[str]
    """Names of the effects that one run performs once each."""
    control: str
    """The row that is predicted red at b1; a matrix without it runs it apart."""
    waits_s: Mapping[str, float]
    """Time-outs the engine forces on a recovery, by name, in seconds; printed."""

    def rows(self) -> Sequence[Row]:
        """The engine's rows."""
        ...

    def environment(self) -> EnvSpec:
        """Where its subjects run."""
        ...

    def servers(self, folder: Path) -> AbstractAsyncContextManager[Endpoints]:
        """Start what the engine needs, once per matrix."""
        ...

    def start(self, row: Row, trial: Trial) -> Launch:
        """The first process of a trial."""
        ...

    def recover(self, row: Row, trial: Trial) -> Launch:
        """The process that takes over, after a kill or beside a frozen one."""
        ...

    async def durable(self, row: Row, trial: Trial) -> StoreReading:
        """Read the engine's store between fault and recovery without changing it."""
        ...

    async def final(self, row: Row, trial: Trial, ended: Any) -> FinalState:
        """Ask the engine how the run stands; `ended` is what the last process returned."""
        ...
