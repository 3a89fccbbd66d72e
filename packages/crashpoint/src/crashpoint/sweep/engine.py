"""Discover, plan, run, judge: the loop of a sweep, over any crasher.

A clean run finds the points. Each is crashed at in a world of its own, and the restart left to end;
with depth 2 the restart is crashed at each point *it* reaches, and so on. A process that does not
pass the points it passed before is not re-planned but reported: it is not deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final, Generic, Protocol, TypeVar

from crashpoint.canonical import NotCanonical, digest
from crashpoint.model import Outcome, worst
from crashpoint.pipeline.crash import Basis
from crashpoint.pipeline.judge import Ending, Result
from crashpoint.sweep.words import DISCOVER, Process, Scenario, Seen, SweepFault, Verdict, When

__all__ = ["RETRIES", "Crasher", "Discovery", "Sweep", "Wandering", "judge"]

RETRIES: Final = 3
"""Restarts that may fail one after the other before a run is called a crash loop."""

W = TypeVar("W")


class Wandering(SweepFault):
    """Two runs without a crash had different effects."""


class Crasher(Protocol[W]):
    """Runs a job's processes in worlds of its kind."""

    basis: Basis

    def fresh(self) -> W:
        """A world in which nothing has happened yet."""
        ...

    def run(self, world: W, *, resume: bool, at: int, fail: bool = False) -> Process:
        """Run the start or the resume entry and crash it at its `at`-th point.

        0 lets it end; so does DISCOVER, and then `places` says where its points are. With `fail`
        the point raises OSError (no space left) instead, and the process goes on.
        """
        ...

    def snapshot(self, world: W) -> Any:
        """What `restore` needs in order to make this world again."""
        ...

    def restore(self, snapshot: Any) -> W:
        """A world as it was; each call gives one that can be used up."""
        ...

    def key(self, world: W) -> Hashable:
        """Equal for worlds in which recovery cannot differ: durable state, receivers, counters."""
        ...

    def seen(self, world: W) -> Seen:
        """What reached the outside."""
        ...

    def drop(self, world: W) -> None:
        """The world is not needed any more."""
        ...


@dataclass(frozen=True)
class Discovery:
    """What a run without a crash showed: its points in order, what it did, what it returned."""

    points: list[str]
    seen: Seen
    result: str | None
    """Digest of what it returned; None when two clean runs returned different things."""
    places: list[str]
    """Where in the code each point is, as far as that is known."""
    expected: Mapping[str, int] = field(default_factory=dict)
    """Crossings by operation that such a run should have, where somebody has said so."""

    @cached_property
    def surplus(self) -> int:
        """Effects too many already without a crash."""
        seen = self.seen.ops
        return sum(max(0, seen.get(op, 0) - wanted) for op, wanted in self.expected.items())

    @cached_property
    def lacking(self) -> int:
        """Effects that are missing already without a crash."""
        seen = self.seen
        short = sum(max(0, wanted - seen.ops.get(op, 0)) for op, wanted in self.expected.items())
        return max(short, sum(name not in seen.crossings for name in seen.swallowed))

    def faults(self) -> list[str]:
        """What is wrong already without a crash, a sentence each."""
        told = [
            f"{name} was taken for a repeat of another request and not done: both came with one key"
            for name in self.seen.swallowed
            if name not in self.seen.crossings
        ]
        for op, wanted in self.expected.items():
            have = self.seen.ops.get(op, 0)
            if have != wanted:
                told.append(f"{op} was asked for {wanted} times and done {have} times")
        return told


class Sweep(Generic[W]):
    """One job under one crasher. `scenarios()` yields them as they are judged, in a fixed order."""

    def __init__(
        self,
        crasher: Crasher[W],
        *,
        depth: int = 2,
        dedupe: bool = True,
        result: bool = True,
        expected: Mapping[str, int] | None = None,
    ) -> None:
        if depth < 1:
            raise SweepFault(f"depth {depth}: a sweep crashes at least once, so 1 or more")
        self._crasher = crasher
        self._depth = depth
        self._compare = result
        self._expected = expected
        self._known: dict[Hashable, list[Scenario]] | None = {} if dedupe else None
        self.processes = 0
        """Process lifetimes so far."""
        self.recovered = 0
        """Worlds that were really recovered; fewer than scenarios when equal ones were not."""
        self.found = self._discover()

    def scenarios(self, only: tuple[int, ...] | None = None) -> Iterator[Scenario]:
        """Every scenario up to the depth, or the one with a path; raises SweepFault."""
        points = self.found.points
        firsts = range(1, len(points) + 1) if only is None else [self._first_of(only)]
        for n in firsts:
            world = self._crasher.fresh()
            stray = self._crash(world, n, points, resume=False)
            if stray is not None:
                yield Scenario((n,), (points[n - 1],), stray)
                continue
            yield from self._after(world, (n,), (points[n - 1],), only)

    def _first_of(self, only: tuple[int, ...]) -> int:
        if not only or not 1 <= only[0] <= len(self.found.points):
            raise SweepFault(f"the program has {len(self.found.points)} points, not {only}")
        return only[0]

    def _discover(self) -> Discovery:
        """Run without a crash, twice: a program that differs from itself cannot be swept."""
        first, second = self._clean(), self._clean()
        difference = _difference(first[0].passed, second[0].passed)
        if difference is not None:
            raise SweepFault(f"the program is not deterministic without a crash: {difference}")
        once, again = _counts(first[1]), _counts(second[1])
        if once != again:
            strange, _ = min(once.items() ^ again.items())
            raise Wandering(
                f"the program is not deterministic: effect {strange!r} is not in both of two clean "
                "runs, or not as often; name effects by what does not change (see docs/sweep.md)"
            )
        if not first[0].passed:
            raise SweepFault("the program announces no point: there is nowhere to crash it")
        results = {_result_digest(process) for process, _ in (first, second)}
        if first[0].result is None:
            results.add(None)  # nothing was returned, so there is nothing to compare with
        result = results.pop() if len(results) == 1 and self._compare else None
        expected = _asked_for(first[0]) if self._expected is None else self._expected
        return Discovery(first[0].passed, first[1], result, first[0].places, expected)

    def _clean(self) -> tuple[Process, Seen]:
        world = self._crasher.fresh()
        process = self._run(world, resume=False, at=DISCOVER)
        seen = self._crasher.seen(world)
        self._crasher.drop(world)
        if process.when is not When.ENDED:
            raise SweepFault(
                f"NO_START: without a crash the program {process.when}: {process.said}"
            )
        return process, seen

    def _run(self, world: W, *, resume: bool, at: int, fail: bool = False) -> Process:
        self.processes += 1
        return self._crasher.run(world, resume=resume, at=at, fail=fail)

    def _crash(self, world: W, n: int, points: Sequence[str], *, resume: bool) -> Verdict | None:
        """Crash at the n-th point; a verdict only when that did not come about as planned."""
        process = self._run(world, resume=resume, at=n)
        difference = _difference(points[:n], process.passed)
        if process.when is When.CRASHED and difference is None:
            return None
        self._crasher.drop(world)
        if process.when is When.HUNG:
            void = f"to be crashed at point {n}, the process hung: {process.said}"
            return Verdict(Outcome.VOID, Ending.STUCK, void=void)
        if process.when is When.FAILED:
            void = f"to be crashed at point {n}, the process failed: {process.said}"
            return Verdict(Outcome.VOID, void=void)
        return Verdict(Outcome.VOID, void=f"not deterministic: {difference}")

    def _after(
        self,
        world: W,
        path: tuple[int, ...],
        names: tuple[str, ...],
        only: tuple[int, ...] | None,
    ) -> Iterator[Scenario]:
        """The scenario that crashed as `path` says and is now left to end, and all deeper ones."""
        if self._known is None or only is not None:
            yield from self._recovered(world, path, names, only)
            return
        key = (len(path), self._crasher.key(world))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = []
            for scenario in self._recovered(world, path, names, only):
                tail = slice(len(path), None)
                known.append(
                    replace(scenario, path=scenario.path[tail], names=scenario.names[tail])
                )
                yield scenario
            return
        self._crasher.drop(world)
        for scenario in known:
            yield replace(scenario, path=path + scenario.path, names=names + scenario.names)

    def _recovered(
        self,
        world: W,
        path: tuple[int, ...],
        names: tuple[str, ...],
        only: tuple[int, ...] | None,
    ) -> Iterator[Scenario]:
        deeper = len(path) < self._depth if only is None else path != only
        snapshot = self._crasher.snapshot(world) if deeper else None
        self.recovered += 1
        process, verdict = self._recover(world)
        if only is None or path == only:
            yield Scenario(path, names, verdict)
        if snapshot is None:
            return
        points = process.passed
        wanted = range(1, len(points) + 1) if only is None else [only[len(path)]]
        for n in wanted:
            if n > len(points):
                raise SweepFault(f"the restart after {names} has {len(points)} points, not {n}")
            again = self._crasher.restore(snapshot)
            here, named = (*path, n), (*names, points[n - 1])
            stray = self._crash(again, n, points, resume=True)
            if stray is not None:
                yield Scenario(here, named, stray)
                continue
            yield from self._after(again, here, named, only)

    def _recover(self, world: W) -> tuple[Process, Verdict]:
        """Restart it and judge what is there then; also returns the first restart."""
        first, last = self._restart(world)
        verdict = judge(self.found, last, self._crasher.seen(world))
        self._crasher.drop(world)
        return first, verdict

    def _restart(self, world: W) -> tuple[Process, Process]:
        """Restart until it ends, hangs, or has failed too often: the first and the last restart."""
        first = last = self._run(world, resume=True, at=0)
        failures = 1
        while last.when is When.FAILED and failures < RETRIES:
            failures += 1
            last = self._run(world, resume=True, at=0)
        return first, last


def judge(found: Discovery, last: Process, seen: Seen) -> Verdict:
    """The verdict on a scenario whose last process ended like this; never raises."""
    strange: set[str] = set()
    outcomes, dups, missing = _compared(found, seen)
    if seen.crossings != found.seen.crossings:
        strange = seen.crossings.keys() - found.seen.crossings.keys()
    outcome = worst(outcomes) if outcomes else Outcome.EXACTLY_ONCE
    ending, void = Ending.ENDED, None
    if last.when is When.HUNG:
        ending, void = Ending.STUCK, f"the restart hung: {last.said}"
    elif last.when is not When.ENDED:
        ending, void = Ending.CRASHLOOP, f"{RETRIES} restarts failed: {last.said}"
    elif strange:
        outcome, dups = Outcome.DIVERGED, dups + sum(len(seen.crossings[s]) for s in strange)
    result = Result.NOT_CHECKED
    # A restart that finds nothing to do and returns nothing claims nothing about the result.
    says = last.result is not None or bool(last.passed)
    if found.result is not None and says and last.when is When.ENDED:
        result = Result.SAME if _result_digest(last) == found.result else Result.WRONG
    return Verdict(
        outcome if void is None else Outcome.VOID,
        ending,
        result,
        dups,
        missing,
        seen.asks,
        seen.model_calls - found.seen.model_calls,
        void,
    )


def _compared(found: Discovery, seen: Seen) -> tuple[list[Outcome], int, int]:
    """Outcomes other than exactly once of the usual effects; how many are too many, and lacking."""
    outcomes = []
    dups, missing = found.surplus, found.lacking
    if dups:
        outcomes.append(Outcome.DUPLICATED)
    if missing:
        outcomes.append(Outcome.LOST)
    if seen.crossings == found.seen.crossings:
        return outcomes, dups, missing
    for name, usual in found.seen.crossings.items():
        actions = seen.crossings.get(name, ())
        if actions == usual:
            continue
        distinct, usually = len(set(actions)), len(set(usual))
        lacking = max(0, usually - distinct, len(usual) - len(actions))
        surplus = len(actions) - (len(usual) - lacking)
        if surplus > 0:
            dups += surplus
            outcomes.append(Outcome.DUPLICATED if distinct <= usually else Outcome.DIVERGED)
        if lacking > 0:
            missing += lacking
            outcomes.append(Outcome.LOST)
    return outcomes, dups, missing


def _asked_for(process: Process) -> dict[str, int]:
    """By operation, how often a model asked for it, if it used an id for more than one call.

    Otherwise a program may have reasons to do less than it was asked for; having met the id before
    is none.
    """
    ids = [call_id for call_id, _ in process.calls]
    if len(ids) == len(set(ids)):
        return {}
    return Counter(op for _, op in process.calls)


def _counts(seen: Seen) -> dict[str, int]:
    return {name: len(actions) for name, actions in seen.crossings.items()}


def _result_digest(process: Process) -> str | None:
    if process.result is None:
        return ""
    try:
        return digest(process.result)
    except NotCanonical:
        # What a forked process says of such a result as well, so that the modes agree.
        text = ascii(process.result)
        return None if " at 0x" in text else digest(text)


def _difference(planned: Sequence[str], passed: Sequence[str]) -> str | None:
    """The first point at which two processes differ, in words, or None."""
    if planned == passed:
        return None
    for n, (one, other) in enumerate(zip_longest(planned, passed), start=1):
        if one != other:
            return f"point {n} was {one or 'the end'} and is now {other or 'the end'}"
    return None
