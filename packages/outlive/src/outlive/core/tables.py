"""The machines of the runtime: what may happen in each state, and what then follows.

They decide; the engine stores what they decided and says so. docs/machines.md shows them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from outlive.core.machine import Machine

__all__ = [
    "APPROVAL",
    "EFFECT",
    "MACHINES",
    "RUN",
    "SESSION",
    "STEP",
    "WAIT",
    "Approval",
    "Effect",
    "Run",
    "Session",
    "Step",
    "Wait",
]


class Run(StrEnum):
    """States of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    NEEDS_ATTENTION = "needs_attention"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunEvent(StrEnum):
    """What happens to a run."""

    CLAIM = "claim"
    SUSPEND = "suspend"
    WAKE = "wake"
    RELEASE = "release"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    END_CANCELLED = "end_cancelled"
    PARK = "park"
    RESUME = "resume"


RUN: Final[Machine[Run, RunEvent]] = Machine(
    "run",
    "One workflow execution, from its start to its one final verdict; once `cancelling` is "
    "stored it cannot complete any more.",
    Run.QUEUED,
    {
        Run.QUEUED: {
            RunEvent.CLAIM: Run.RUNNING,
            RunEvent.CANCEL: Run.CANCELLING,
            RunEvent.PARK: Run.NEEDS_ATTENTION,
        },
        Run.RUNNING: {
            RunEvent.SUSPEND: Run.WAITING,
            RunEvent.RELEASE: Run.QUEUED,
            RunEvent.COMPLETE: Run.COMPLETED,
            RunEvent.FAIL: Run.FAILED,
            RunEvent.CANCEL: Run.CANCELLING,
            RunEvent.PARK: Run.NEEDS_ATTENTION,
        },
        Run.WAITING: {
            RunEvent.WAKE: Run.QUEUED,
            RunEvent.CANCEL: Run.CANCELLING,
            RunEvent.PARK: Run.NEEDS_ATTENTION,
        },
        # Clean-up steps still run, on a worker like any other; a completion is refused.
        Run.CANCELLING: {
            RunEvent.CLAIM: Run.CANCELLING,
            RunEvent.RELEASE: Run.CANCELLING,
            RunEvent.SUSPEND: Run.CANCELLING,
            RunEvent.WAKE: Run.CANCELLING,
            RunEvent.END_CANCELLED: Run.CANCELLED,
            RunEvent.FAIL: Run.FAILED,
            RunEvent.PARK: Run.NEEDS_ATTENTION,
        },
        # One that was to be cancelled (`RunRow.cancelled`) goes on by CANCEL, and never to run as
        # if nothing were: it cannot complete any more.
        Run.NEEDS_ATTENTION: {
            RunEvent.RESUME: Run.QUEUED,
            RunEvent.CANCEL: Run.CANCELLING,
        },
        Run.COMPLETED: {},
        Run.FAILED: {},
        Run.CANCELLED: {},
    },
)


class Step(StrEnum):
    """States of a step."""

    ASKED = "asked"
    RUNNING = "running"
    RETRYING = "retrying"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


class StepEvent(StrEnum):
    """What happens to a step."""

    BEGIN = "begin"
    RETURN = "return"
    RAISE = "raise"
    GIVE_UP = "give_up"
    REFUSE = "refuse"
    SUPPLY = "supply"
    DIE = "die"


STEP: Final[Machine[Step, StepEvent]] = Machine(
    "step",
    "One recorded unit of work in a run; what is recorded as ended is never run again.",
    Step.ASKED,
    {
        Step.ASKED: {StepEvent.BEGIN: Step.RUNNING, StepEvent.DIE: Step.ASKED},
        Step.RUNNING: {
            StepEvent.RETURN: Step.DONE,
            StepEvent.RAISE: Step.RETRYING,
            StepEvent.GIVE_UP: Step.FAILED,
            # It happened, and its result cannot be stored: never again, a person may supply one.
            StepEvent.REFUSE: Step.REFUSED,
            StepEvent.DIE: Step.ASKED,
        },
        Step.RETRYING: {
            StepEvent.BEGIN: Step.RUNNING,
            # The code stopped waiting for it: it ends with its last error.
            StepEvent.GIVE_UP: Step.FAILED,
            StepEvent.DIE: Step.RETRYING,
        },
        Step.REFUSED: {StepEvent.SUPPLY: Step.DONE},
        Step.DONE: {},
        Step.FAILED: {},
    },
)


class Wait(StrEnum):
    """States of a wait."""

    OPEN = "open"
    MET = "met"
    TIMED_OUT = "timed_out"
    DROPPED = "dropped"


class WaitEvent(StrEnum):
    """What happens to a wait."""

    MEET = "meet"
    TIME_OUT = "time_out"
    DROP = "drop"


WAIT: Final[Machine[Wait, WaitEvent]] = Machine(
    "wait",
    "What a run waits for without a worker: a time, an event, a child, a person.",
    Wait.OPEN,
    {
        Wait.OPEN: {
            WaitEvent.MEET: Wait.MET,
            WaitEvent.TIME_OUT: Wait.TIMED_OUT,
            WaitEvent.DROP: Wait.DROPPED,
        },
        Wait.MET: {},
        Wait.TIMED_OUT: {},
        Wait.DROPPED: {},
    },
)


class Approval(StrEnum):
    """States of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class ApprovalEvent(StrEnum):
    """What happens to an approval."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"


APPROVAL: Final[Machine[Approval, ApprovalEvent]] = Machine(
    "approval",
    "One question to a person, decided once.",
    Approval.PENDING,
    {
        Approval.PENDING: {
            ApprovalEvent.APPROVE: Approval.APPROVED,
            ApprovalEvent.DENY: Approval.DENIED,
            ApprovalEvent.EXPIRE: Approval.EXPIRED,
            ApprovalEvent.WITHDRAW: Approval.WITHDRAWN,
        },
        Approval.APPROVED: {},
        Approval.DENIED: {},
        Approval.EXPIRED: {},
        Approval.WITHDRAWN: {},
    },
)


class Effect(StrEnum):
    """States of an effect."""

    PLANNED = "planned"
    MARKED = "marked"
    UNKNOWN = "unknown"
    SETTLING = "settling"
    ASKING = "asking"
    SETTLED = "settled"
    ABSENT = "absent"


class EffectEvent(StrEnum):
    """What happens to an effect."""

    MARK = "mark"
    CONFIRM = "confirm"
    REFUSE = "refuse"
    DOUBT = "doubt"
    SETTLE = "settle"
    RESEND = "resend"
    FIND = "find"
    MISS = "miss"
    ASK = "ask"
    REPEAT = "repeat"


EFFECT: Final[Machine[Effect, EffectEvent]] = Machine(
    "effect",
    "One change of the outside world: marked before it goes out, and settled, not repeated, "
    "when its outcome is unknown.",
    Effect.PLANNED,
    {
        Effect.PLANNED: {EffectEvent.MARK: Effect.MARKED},
        # From the marker on, nobody can say that it has not happened.
        Effect.MARKED: {
            EffectEvent.CONFIRM: Effect.SETTLED,
            EffectEvent.REFUSE: Effect.ABSENT,
            EffectEvent.DOUBT: Effect.UNKNOWN,
        },
        Effect.UNKNOWN: {EffectEvent.SETTLE: Effect.SETTLING},
        Effect.SETTLING: {
            EffectEvent.RESEND: Effect.MARKED,
            EffectEvent.FIND: Effect.SETTLED,
            EffectEvent.MISS: Effect.ABSENT,
            EffectEvent.ASK: Effect.ASKING,
        },
        Effect.ASKING: {
            EffectEvent.FIND: Effect.SETTLED,
            EffectEvent.MISS: Effect.ABSENT,
            EffectEvent.REPEAT: Effect.MARKED,
        },
        # A new trial has a new key; it is begun for known absence, or because a person orders it.
        Effect.ABSENT: {EffectEvent.REPEAT: Effect.MARKED},
        Effect.SETTLED: {},
    },
)


class Session(StrEnum):
    """States of a session."""

    LIVE = "live"
    SUSPECT = "suspect"
    ENDED = "ended"


class SessionEvent(StrEnum):
    """What happens to a session."""

    BEAT = "beat"
    DISCONNECT = "disconnect"
    RETURN = "return"
    GOODBYE = "goodbye"
    CONFIRM_DEATH = "confirm_death"
    LAPSE = "lapse"


SESSION: Final[Machine[Session, SessionEvent]] = Machine(
    "session",
    "One runner process's lifetime on an engine; a closed socket is suspicion, not death.",
    Session.LIVE,
    {
        Session.LIVE: {
            SessionEvent.BEAT: Session.LIVE,
            # A closed socket is suspicion, not death.
            SessionEvent.DISCONNECT: Session.SUSPECT,
            SessionEvent.GOODBYE: Session.ENDED,
            SessionEvent.CONFIRM_DEATH: Session.ENDED,
            SessionEvent.LAPSE: Session.ENDED,
        },
        Session.SUSPECT: {
            SessionEvent.BEAT: Session.SUSPECT,
            SessionEvent.RETURN: Session.LIVE,
            SessionEvent.GOODBYE: Session.ENDED,
            SessionEvent.CONFIRM_DEATH: Session.ENDED,
            SessionEvent.LAPSE: Session.ENDED,
        },
        Session.ENDED: {},
    },
)

MACHINES: Final = (RUN, STEP, WAIT, APPROVAL, EFFECT, SESSION)
