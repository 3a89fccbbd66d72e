"""A durable runtime: what a run did is recorded by an engine that outlives the run's process.

Workflow code is plain async Python; its steps, waits and effects are each done once and recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlive.sdk.app import App, Workflow
from outlive.sdk.calls import Attempt, current
from outlive.sdk.context import Approved, Context, Event, Steps
from outlive.sdk.errors import (
    BadDuration,
    BadStepId,
    BadWorkflow,
    EngineRefused,
    NotDeterministic,
    NotInStep,
)
from outlive.sdk.retry import Retry
from outlive.wire.values import NotRestorable, NotStorable, StepFailed

if TYPE_CHECKING:
    from outlive.sdk.runner import Runner

__all__ = [
    "App",
    "Approved",
    "Attempt",
    "BadDuration",
    "BadStepId",
    "BadWorkflow",
    "Context",
    "EngineRefused",
    "Event",
    "NotDeterministic",
    "NotInStep",
    "NotRestorable",
    "NotStorable",
    "Retry",
    "Runner",
    "StepFailed",
    "Steps",
    "Workflow",
    "current",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The runner is imported when it is asked for: workflow code needs no network."""
    if name == "Runner":
        from outlive.sdk.runner import Runner

        return Runner
    raise AttributeError(f"module 'outlive' has no attribute {name!r}")
