"""Group commit: what is decided while the disk is busy goes out together, with no timer.

A commit's `then` is called when it is durable, in the order in which commits were given; nothing
that the engine says about it may be said before. When the store fails, `failed` is told once and
whatever waited is dropped unanswered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from outlive.store.api import Commit, Store, StoreFault

__all__ = ["Committer", "Then"]

log = logging.getLogger("outlive.engine")

Then = Callable[[bool], None]
"""Told whether the commit was made; False: it was decided about an older state."""

BATCH_MAX: Final = 4096


class Committer:
    """Use `give`; commits are written in a task that runs while there are any."""

    def __init__(self, store: Store, failed: Callable[[StoreFault], None]) -> None:
        self._store = store
        self._failed = failed
        self._waiting: list[tuple[Commit, Then, Callable[[], object]]] = []
        self._task: asyncio.Task[None] | None = None
        self.after_batch: Callable[[], None] = lambda: None
        """Called when all of a group were answered: the time to flush connections."""
        self._generation = 0
        self.groups = 0
        self.commits = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or being written."""
        return self._task is None and not self._waiting

    def give(
        self, commit: Commit, then: Then, dropped: Callable[[], object] = lambda: None
    ) -> None:
        """Have it written with the next group; `dropped` is called if nobody will ever know."""
        self._waiting.append((commit, then, dropped))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    def drop(self) -> None:
        """Forget what waits; what is being written is not answered either."""
        self._generation += 1
        waiting, self._waiting = self._waiting, []
        for _, _, dropped in waiting:
            dropped()

    def _give_up(self, generation: int, error: Exception) -> None:
        if generation != self._generation:
            return
        self.drop()
        if isinstance(error, StoreFault):
            self._failed(error)
        else:
            log.error("a defect of the engine", exc_info=error)
            self._failed(StoreFault(f"a defect of the engine: {error!r}"))

    async def _write(self) -> None:
        try:
            while self._waiting:
                group = self._waiting[:BATCH_MAX]
                del self._waiting[: len(group)]
                generation = self._generation
                try:
                    made = await self._store.apply([commit for commit, _, _ in group])
                except Exception as error:  # noqa: BLE001  whatever it was, nobody knows what is stored
                    for _, _, dropped in group:
                        dropped()
                    self._give_up(generation, error)
                    return
                self.groups += 1
                self.commits += len(group)
                try:
                    for (_, then, dropped), one in zip(group, made, strict=True):
                        if generation != self._generation:
                            dropped()
                        else:
                            then(one)
                    self.after_batch()
                except Exception as error:  # noqa: BLE001  a defect may have left memory half changed
                    self._give_up(generation, error)
                    return
        finally:
            self._task = None
            if self._waiting:
                self._task = asyncio.get_running_loop().create_task(self._write())
