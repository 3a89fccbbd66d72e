"""Trials by construction: what was sealed, what was seen, what was wanted, and the verdict."""

from dataclasses import dataclass, field, replace
from itertools import count as numbers

from crashpoint.canonical import digest
from crashpoint.ledger.chain import Chain, Kind, SealedChain, trial_key
from crashpoint.model import AtFault, FaultKind
from crashpoint.pipeline.judge import Expectation, Observed

__all__ = ["CASES", "Case", "chain_of", "killed"]

KEY = trial_key(bytes(32), "t")
RESULT = {"paid": True}
DONE = {"how": "ended", "code": 0}
AFTER_EFFECT = AtFault(effect_done=True, recorded=False)
WANT = Expectation(("charge",), FaultKind.KILL, "b1", AFTER_EFFECT, digest(RESULT))
FROZEN = replace(WANT, fault=FaultKind.FREEZE)
REFERENCE = Expectation(("charge",), None)
DIED = {"how": "crashed", "code": -9}
STOPPED = {"how": "frozen", "code": None}
FIRED = {"point": "b1", "at_ns": 5, "took_us": 7, "pids": 1, "announced_within": True}
UNRECORDED = {"recorded": False, "facts": {}}
FINAL = {"finished": True, "result": RESULT, "facts": {}}


def killed(**changed):
    """A good trial of a naive row, killed at b1, but for what is changed."""
    seen = Observed(
        mode="hot",
        passed=("b0",),
        first=DIED,
        fired=FIRED,
        records_at_fault=2,
        store=UNRECORDED,
        recovery=DONE,
        final=FINAL,
        recover_us=9,
    )
    return replace(seen, **changed)


def frozen(**changed):
    return killed(**{"first": STOPPED, "thawed": DONE, **changed})


def uncrashed(**changed):
    seen = Observed(mode="hot", passed=("b0", "b1", "b2"), first=DONE, final=FINAL)
    return replace(seen, **changed)


def chain_of(attempts, note):
    """A sealed chain of attempts, each (key, action) or (key, action, name); by name a charge."""
    chain = Chain("t", KEY)
    chain.append(Kind.OPEN, 1)
    ids, first = numbers(), {}
    for key, action, *name in attempts:
        effect = name[0] if name else "charge"
        known = digest(action) if key is None else first.setdefault((effect, key), digest(action))
        chain.append(
            Kind.ATTEMPT,
            2,
            peer={"pid": 1, "uid": 1, "gid": 1, "start": 1},
            id=f"i{next(ids)}",
            effect=effect,
            key=key,
            action=action,
            digest=digest(action),
            mismatch=known != digest(action),
        )
    chain.append(Kind.SEAL, 3, note=note)
    return SealedChain("t", KEY, chain.head, len(chain.records), chain.records)


TWICE = ((None, 1), (None, 1))


@dataclass(frozen=True)
class Case:
    """`void` is the reason, None for a trial that counts; `note` is sealed if not the right one."""

    effects: str
    ending: str
    result: str = "NOT_CHECKED"
    void: str | None = None
    seen: Observed = field(default_factory=killed)
    want: Expectation = WANT
    attempts: tuple = TWICE
    note: str | None = None

    def chain(self):
        return chain_of(self.attempts, self.note or self.seen.note())


def void(why, ending="ENDED", **given):
    return Case("VOID", ending, void=why, **given)


CASES = {
    # Trials that count.
    "twice": Case("DUPLICATED", "ENDED", "SAME"),
    "twice and not the same": Case("DIVERGED", "ENDED", "SAME", attempts=((None, 1), (None, 2))),
    "once by its key": Case("EXACTLY_ONCE", "ENDED", "SAME", attempts=(("k", 1), ("k", 1))),
    "never": Case(
        "LOST",
        "ENDED",
        "SAME",
        attempts=(),
        seen=killed(records_at_fault=1, store={"recorded": True, "facts": {}}),
        want=replace(WANT, place=AtFault(effect_done=False, recorded=True)),
    ),
    "recovered with another result": Case(
        "DUPLICATED", "ENDED", "WRONG", seen=killed(final={**FINAL, "result": {"paid": 2}})
    ),
    "nothing to compare with": Case(
        "DUPLICATED", "ENDED", "NOT_CHECKED", want=replace(WANT, result=None)
    ),
    "frozen": Case("DUPLICATED", "ENDED", "SAME", seen=frozen(), want=FROZEN),
    "thawed into a failure": Case(
        "DUPLICATED",
        "ENDED",
        "SAME",
        seen=frozen(thawed={"how": "ended", "code": 1, "said": "fenced"}),
        want=FROZEN,
    ),
    "uncrashed": Case(
        "EXACTLY_ONCE", "ENDED", seen=uncrashed(), want=REFERENCE, attempts=((None, 1),)
    ),
    # The ledger.
    "an effect of another name": void(
        "an effect nobody expected: 'refund'", attempts=(*TWICE, (None, 1, "refund"))
    ),
    "another observation was sealed": void(
        "the observations are not the ones that were sealed", note="0" * 64
    ),
    # The bench.
    "the bench failed": void(
        "the bench: no more processes", seen=killed(error="no more processes")
    ),
    "the bench failed at once": void(
        "the bench: gone", "STUCK", seen=Observed("cold", error="gone"), attempts=()
    ),
    # The place.
    "never reached": void(
        "b1 was never reached: it ended with exit status 3 (no)",
        "STUCK",
        seen=Observed("hot", first={"how": "ended", "code": 3, "said": "no"}),
    ),
    "never reached, by a signal": void(
        "b1 was never reached: it ended with signal 11",
        "STUCK",
        seen=Observed("hot", first={"how": "ended", "code": -11}),
    ),
    "never reached in time": void(
        "b1 was never reached: it hung (zzz)",
        "STUCK",
        seen=Observed("hot", first={"how": "hung", "code": None, "said": "zzz"}),
    ),
    "never started": void("b1 was never reached: no process ran", "STUCK", seen=Observed("hot")),
    "fired and nothing said of the process": void(
        "b1 was never reached: no process ran", seen=killed(first=None)
    ),
    "not fired": void("b1 was never reached: it ended with signal 9", seen=killed(fired=None)),
    "fired elsewhere": void(
        "the fault landed at b0, not at b1", seen=killed(fired={**FIRED, "point": "b0"})
    ),
    "announced from outside": void(
        "the barrier was announced by a process outside the subject's tree",
        seen=killed(fired={**FIRED, "announced_within": False}),
    ),
    "died of something else": void(
        "the first process did not die of the kill: it ended with signal 15",
        seen=killed(first={"how": "crashed", "code": -15}),
    ),
    "ended before it could die": void(
        "the first process did not die of the kill: it ended with exit status 0 (bye)",
        seen=killed(first={"how": "crashed", "code": 0, "said": "bye"}),
    ),
    "the ledger was not looked at": void(
        "nothing was read between the fault and the recovery", seen=killed(records_at_fault=None)
    ),
    "the store was not looked at": void(
        "nothing was read between the fault and the recovery", seen=killed(store=None)
    ),
    "nobody said what there should be": void(
        "nothing was read between the fault and the recovery", want=replace(WANT, place=None)
    ),
    "too early for the effect": void(
        "at b1 the effect should have crossed 1 times, the ledger held 0",
        seen=killed(records_at_fault=1),
    ),
    "too late for the effect": void(
        "at b1 the effect should have crossed 0 times, the ledger held 1",
        want=replace(WANT, place=AtFault(effect_done=False, recorded=False)),
    ),
    "crossed twice by then": void(
        "at b1 the effect should have crossed 1 times, the ledger held 2",
        seen=killed(records_at_fault=3),
    ),
    "too late for the store": void(
        "at b1 the completion should be not recorded, the engine's store had it recorded",
        seen=killed(store={"recorded": True, "facts": {}}),
    ),
    "too early for the store": void(
        "at b1 the completion should be recorded, the engine's store had it not recorded",
        want=replace(WANT, place=AtFault(effect_done=True, recorded=True)),
    ),
    # The end.
    "the recovery hung": void(
        "the recovery hung: no end within the time limit (zzz)",
        "STUCK",
        seen=killed(recovery={"how": "hung", "code": None, "said": "zzz"}, final=None),
    ),
    "the recovery failed": void(
        "the recovery failed: it ended with exit status 1 (no)",
        "NO_START",
        seen=killed(recovery={"how": "ended", "code": 1, "said": "no"}),
    ),
    "the recovery failed and the engine calls it finished": void(
        "the recovery failed: it ended with signal 6",
        "NO_START",
        seen=killed(recovery={"how": "ended", "code": -6}, final=FINAL),
    ),
    "the engine was not asked": void(
        "the engine does not call the run finished", "STUCK", seen=killed(final=None)
    ),
    "the engine says no": void(
        "the engine does not call the run finished",
        "STUCK",
        seen=killed(final={**FINAL, "finished": False}),
    ),
    "the thawed process hung": void(
        "the thawed process hung: no end within the time limit",
        "STUCK",
        seen=frozen(thawed={"how": "hung", "code": None, "said": ""}),
        want=FROZEN,
    ),
    "an uncrashed run hung": void(
        "the first process hung: no end within the time limit",
        "STUCK",
        seen=Observed("hot", first={"how": "hung", "code": None}),
        want=REFERENCE,
    ),
    "an uncrashed run failed": void(
        "the run failed: it ended with exit status 2 (no)",
        "STUCK",
        seen=uncrashed(first={"how": "ended", "code": 2, "said": "no"}, final=None),
        want=REFERENCE,
    ),
    "an uncrashed run did not finish": void(
        "the engine does not call the run finished",
        "STUCK",
        seen=uncrashed(final={**FINAL, "finished": False}),
        want=REFERENCE,
    ),
    "an uncrashed run of which nothing is known": void(
        "the engine does not call the run finished",
        "STUCK",
        seen=Observed("hot"),
        want=REFERENCE,
    ),
    "nothing recovered": void("no process recovered", seen=killed(recovery=None)),
    "nothing thawed": void(
        "the frozen process was never thawed", seen=frozen(thawed=None), want=FROZEN
    ),
}
