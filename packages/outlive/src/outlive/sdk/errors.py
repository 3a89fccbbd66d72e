"""What goes wrong in workflow code and in the runner; each message is one line with the remedy."""

from __future__ import annotations

__all__ = [
    "BadDuration",
    "BadStepId",
    "BadWorkflow",
    "Dropped",
    "EngineRefused",
    "NeverQuiescent",
    "NotDeterministic",
    "NotInStep",
]


class NotDeterministic(RuntimeError):
    """Workflow code did outside a step what a replay could not repeat; the message says instead."""


class NeverQuiescent(RuntimeError):
    """Workflow code went on and on without waiting for a step."""


class NotInStep(RuntimeError):
    """Something that only a running step has was read outside of one."""


class BadDuration(ValueError):
    """Text or a number that is no duration; the message names it."""


class BadStepId(ValueError):
    """A step's id that cannot name a call; the message names it."""


class BadWorkflow(TypeError):
    """A function that cannot be a workflow, or a name given twice."""


class EngineRefused(RuntimeError):
    """The engine turned this runner away and would again; the message is the engine's."""


class Dropped(BaseException):
    """Raised in code whose run was taken away, if it asks for more while it is being closed.

    Not an Exception, so that no `except Exception` of workflow code goes on after it.
    """
