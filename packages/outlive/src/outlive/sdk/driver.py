"""One run: its code on its own loop, fed with the record, and what that code asks of the engine.

Entries are delivered one at a time, each when the code is quiescent, and nothing that is not in the
record starts before all of it was delivered (docs/protocol.md, Order). All of it runs in plain
callbacks of one real loop, so that no lock is needed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlive.sdk.bodies import Host, Send
from outlive.sdk.calls import (
    ASKED,
    ENDED,
    NEW,
    OPEN,
    REFUSED,
    RETRYING,
    STEP,
    AskCall,
    Call,
    StepCall,
)
from outlive.sdk.drift import drifted, first_difference, waiting_line
from outlive.sdk.errors import NeverQuiescent
from outlive.sdk.program import Program
from outlive.wire import asks
from outlive.wire.native_v1 import Ask, Dispatch, Done, Entry, Finish, Have, Park, Suspend, Tried
from outlive.wire.values import Codec, NotRestorable

if TYPE_CHECKING:
    from outlive.sdk.app import Workflow
    from outlive.sdk.retry import Retry

__all__ = ["RETRY_SOON_MS", "Driver"]

RETRY_SOON_MS: Final = 10_000
"""A retry due within this keeps its run here; for a later one the run sleeps in the engine."""

_OF_STEPS: Final = frozenset({"done", "refused", "tried", "marked"})


class Driver(Program):
    """A run under one epoch. `start`, then `entry` for each that comes, until `drop`.

    What it sends goes to `send`. `retry` is for steps that name none. With `replay_always` the
    record is replayed in a fresh instance of the code after each entry.
    """

    __slots__ = (
        "_cause",
        "_dispatch",
        "_history",
        "_parking",
        "_queue",
        "_replay_always",
        "_word",
        "_word_sent",
        "received",
    )

    def __init__(
        self,
        flow: Workflow[Any, Any],
        dispatch: Dispatch,
        *,
        codec: Codec,
        retry: Retry,
        send: Send,
        host: Host,
        replay_always: bool = False,
        shadow: bool = False,
    ) -> None:
        super().__init__(
            flow,
            dispatch,
            codec=codec,
            retry=retry,
            send=send,
            host=host,
            tracing=replay_always or shadow,
            shadow=shadow,
        )
        self.received = 0
        """The last entry that came without a gap."""
        self._replay_always = replay_always
        self._dispatch = dispatch if replay_always else None
        self._history: list[Entry] = []
        self._queue: deque[Entry] = deque()
        self._parking = False
        self._cause = ""
        self._word: Suspend | Finish | Park | None = None
        self._word_sent = 0
        for entry in dispatch.entries:
            self._take(entry)

    # --- what the session calls ----------------------------------------------------------------

    def start(self) -> None:
        """Begin the code and deliver what came with the dispatch."""
        if self._quiesce():
            self._pump()
        else:
            self._settle()

    def entry(self, entry: Entry) -> None:
        """Take an entry: ignore it if it was seen, or if one before it is missing."""
        if self.dropped or not self._take(entry):
            return
        if self._parking:
            self._acknowledge()
            self._settle()
        else:
            self._word = None
            self._pump()

    def have(self) -> Have:
        """What a beat says about this run."""
        return Have(self.run, self.epoch, self.received)

    def again(self, before: int) -> None:
        """Send once more what was sent before that beat and has no answer."""
        for call in self.calls.values():
            if call.message is not None and call.sent < before:
                call.sent = self.host.beat
                self.send(call.message)
        if self._word is not None and self._word_sent < before:
            self._word_sent = self.host.beat
            self.send(self._word)

    def drop(self) -> None:
        """Stop at once and send nothing more: the run is another's, or over."""
        if not self.dropped:
            self.stop_bodies()
            self.close()
            self._queue.clear()

    def _quiesce(self) -> bool:
        """Let the code go on until it waits; False: the run is parked."""
        if not self.workflow_loop.ready:
            return not self._parking
        try:
            self.workflow_loop.run_until_quiescent()
        except NeverQuiescent as error:
            if self.outcome is None:
                self._park(f"{error} ({waiting_line(self.main)})")
        if self.unrestorable:
            self._park(self.unrestorable)
        if self.outcome is not None:
            # As at the end of asyncio.run: what the code left behind does not go on.
            self.workflow_loop.close()
        return not self._parking

    # --- entries -------------------------------------------------------------------------------

    def _take(self, entry: Entry) -> bool:
        if entry.seq != self.received + 1:
            return False
        self.received = entry.seq
        self._queue.append(entry)
        return True

    def _pump(self) -> None:
        queue = self._queue
        while queue:
            entry = queue.popleft()
            if self._replay_always:
                self._history.append(self._whole(entry))
            self._deliver(entry)
            if not self._quiesce():
                break
            if self._replay_always:
                self._compare()
        if self._parking:
            self._acknowledge()
        elif self.fresh and self.delivered >= self.last_seq:
            self._go_on()
        self._settle()

    def _acknowledge(self) -> None:
        """Of a parked run: take note of what was recorded, so that nothing is sent again."""
        queue = self._queue
        while queue:
            call = self.calls.get(queue.popleft().call)
            if call is not None:
                self._answered(call)

    def _answered(self, call: Call) -> Done | Tried | Ask | None:
        sent = call.message
        if sent is not None:
            call.message = None
            self.owed -= 1
        return sent

    def _deliver(self, entry: Entry) -> None:
        self.delivered = entry.seq
        self.at_ms = entry.at_ms
        self.workflow_loop.now_s = entry.at_ms / 1000
        kind = entry.kind
        if kind == "cancelling":
            self.cancel()
            return
        call = self.calls.get(entry.call)
        if call is None:
            # The mark of an effect belongs to a body: on a replay there may be none yet.
            if kind != "marked" or entry.call.partition("!")[0] not in self.calls:
                self._drift(entry, None)
        elif (call.kind == STEP) != (kind in _OF_STEPS) or (
            kind == "emitted" and call.kind != "emit"
        ):
            self._drift(entry, call)
        else:
            try:
                self._apply(call, entry)
            except NotRestorable as error:
                self._park(f"{call.name}, entry {entry.seq}: {error}")

    def _apply(self, call: Call, entry: Entry) -> None:
        kind = entry.kind
        sent = self._answered(call)
        if kind == "done":
            self._done(call, entry, sent)
        elif kind in ("met", "emitted"):
            self._met(call, entry)
        elif kind == "asked":
            self._asked(call, entry)
        elif kind == "tried":
            self._tried(call, entry, sent)
        elif kind == "refused":
            call.state = REFUSED

    def _done(self, call: Call, entry: Entry, sent: Done | Tried | Ask | None) -> None:
        value = entry.value or (sent.value if isinstance(sent, Done) else b"")
        call.state = ENDED
        del self.calls[call.name]
        future = call.future
        if future.done():
            return
        if entry.ok:
            future.set_result(self.codec.decode(value))
        else:
            self.fail(future, self.codec.decode_error(value))

    def _met(self, call: Call, entry: Entry) -> None:
        assert isinstance(call, AskCall)
        call.state = ENDED
        del self.calls[call.name]
        if call.future.done():
            return
        try:
            found = call.read(entry)
        except NotRestorable:
            raise
        except BaseException as error:  # noqa: BLE001  the error of a child
            self.fail(call.future, error)
        else:
            call.future.set_result(found)

    def _asked(self, call: Call, entry: Entry) -> None:
        assert isinstance(call, AskCall)
        call.state = OPEN
        if not entry.value:
            return
        kind, about, _due_ms = msgspec.msgpack.decode(entry.value)
        if kind != call.kind:
            self._drift(entry, call)
        elif kind == "approve":
            was = asks.read(kind, about)
            now = asks.read(kind, call.about)
            assert isinstance(was, asks.Approve)
            assert isinstance(now, asks.Approve)
            if was.digest != now.digest:
                self._park(
                    f"the code has changed: recorded: entry {entry.seq}, {call.name} asks about "
                    f"{was.title!r}, digest {was.digest:.12}; code: asks about {now.title!r}, "
                    f"digest {now.digest:.12}"
                )

    def _tried(self, call: Call, entry: Entry, sent: Done | Tried | Ask | None) -> None:
        assert isinstance(call, StepCall)
        if entry.value:
            call.again_ms = msgspec.msgpack.decode(entry.value)[0]
        elif isinstance(sent, Tried):
            call.again_ms = sent.again_ms
        call.attempt = entry.attempt or call.attempt + 1
        call.error = msgspec.msgpack.decode(entry.value)[1] if entry.value else b""
        if isinstance(sent, Tried):
            call.error = sent.error
        call.state = RETRYING
        self.fresh.append(call)

    # --- going on ------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Start what the code asked for and the record does not hold."""
        if self.shadow or self.host.draining:
            return
        fresh, self.fresh = self.fresh, []
        for call in fresh:
            if call.state == RETRYING and isinstance(call, StepCall):
                self.retry(call)
            elif not self.wanted(call):
                continue  # abandoned before it began
            elif call.state == NEW:
                if isinstance(call, StepCall):
                    self.begin(call)
                elif isinstance(call, AskCall):
                    call.state = ASKED
                    self.say(call, Ask(self.run, self.epoch, call.name, call.kind, call.about))

    def retry(self, call: StepCall) -> None:
        """Begin the next attempt when it is time and no body of the step runs any more."""
        if self.dropped or self._parking or call.state != RETRYING or call.body is not None:
            return
        if not self.wanted(call):
            self._give_up(call)
        elif self._word is not None or self.host.draining or self.delivered < self.last_seq:
            self.fresh.append(call)
        elif (left_ms := call.again_ms - self.host.now_ms()) <= 0:
            self.begin(call)
        else:
            self.host.loop.call_later(left_ms / 1000, self.retry, call)

    def _give_up(self, call: StepCall) -> None:
        """The code no longer waits: end the step with its last error, or it would wake the run."""
        if self.outcome is None:
            failed = Done(self.run, self.epoch, call.name, call.attempt, False, call.error)
            call.state = ASKED
            self.say(call, failed)
        else:
            self._settle()

    def settled(self) -> None:
        """See Bodies."""
        self._settle()

    def _settle(self) -> None:
        """At rest: say so, once, with the last entry that was seen."""
        if self.bodies or self.owed or self._word is not None or self.dropped or self.shadow:
            return
        if self.delivered >= self.last_seq and not self._parking:
            if self.outcome is not None:
                outcome, value = self.outcome
                if self.cancelled and outcome == "completed":
                    outcome, value = "cancelled", self.codec.encode(None)
                self._last(Finish(self.run, self.epoch, self.received, outcome, value))
            elif not self.fresh and self._rests():
                self._last(Suspend(self.run, self.epoch, self.received))
        if self._parking:
            self._last(Park(self.run, self.epoch, self._cause))

    def _rests(self) -> bool:
        """Whether something will move the run that is not here; parks it if nothing will."""
        moves = False
        for call in self.calls.values():
            if call.future.done():
                if call.state == RETRYING and isinstance(call, StepCall) and call.body is None:
                    self._give_up(call)
                    return False
                continue
            if call.state == REFUSED:
                self._park(f"{call.name} happened and its result cannot be stored: supply one")
                return False
            if (
                call.state == RETRYING
                and isinstance(call, StepCall)
                and call.again_ms - self.host.now_ms() <= RETRY_SOON_MS
            ):
                return False
            moves = True
        if not moves:
            where = waiting_line(self.main)
            self._park(
                "the code waits for something that no step brings, so nothing will ever move it"
                + (f" ({where})" if where else "")
            )
        return moves

    def _last(self, word: Suspend | Finish | Park) -> None:
        self._word = word
        self._word_sent = self.host.beat
        self.send(word)

    def _park(self, cause: str) -> None:
        if not self._parking:
            self._parking = True
            self._cause = " ".join(cause.split())[:2000]

    def _drift(self, entry: Entry, call: Call | None) -> None:
        ended = "" if self.outcome is None else f"ended as {self.outcome[0]}"
        line = waiting_line(self.main)
        self._park(drifted(entry, call, list(self.calls.values()), line, ended))

    # --- replay_always -------------------------------------------------------------------------

    def _whole(self, entry: Entry) -> Entry:
        """The entry as a replay would get it: with the value that it stands for."""
        call = self.calls.get(entry.call)
        if entry.value or call is None or not isinstance(call.message, Done):
            return entry
        return msgspec.structs.replace(entry, value=call.message.value)

    def _compare(self) -> None:
        """Replay the record in a fresh instance of the code; park if it does otherwise."""
        if self.delivered < self.last_seq or self._dispatch is None:
            return
        shadow = Driver(
            self.flow,
            msgspec.structs.replace(
                self._dispatch, entries=self._history, last_seq=len(self._history)
            ),
            codec=self.codec,
            retry=self.default_retry,
            send=lambda _message: None,
            host=self.host,
            shadow=True,
        )
        shadow.start()
        difference = shadow._cause or first_difference(
            self.trace, shadow.trace, (self.outcome, shadow.outcome)
        )
        shadow.drop()
        if difference:
            self._park(difference)
