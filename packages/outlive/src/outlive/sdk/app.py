"""An app: its name, its workflows, and the types that may be stored."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from outlive.sdk.errors import BadWorkflow
from outlive.sdk.retry import Retry
from outlive.wire.values import Codec

if TYPE_CHECKING:
    from outlive.sdk.context import Context

__all__ = ["App", "Workflow"]

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Coroutine[Any, Any, object]])


class Workflow(Generic[I, R]):
    """A workflow. Calling it calls the function itself: for a unit test with another context."""

    def __init__(
        self, app: str, name: str, on: tuple[str, ...], fn: Callable[..., Awaitable[R]]
    ) -> None:
        self.app = app
        self.name = name
        self.on = on
        """Names of the events that start it."""
        self.failure: Callable[..., Awaitable[object]] | None = None
        """What runs after an exception that the function let out."""
        self.takes_input = _takes_input(fn)
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} of app {self.app!r}>"

    def __call__(self, ctx: Context, *values: I) -> Awaitable[R]:
        """What the function returns."""
        return self.__wrapped__(ctx, *values)

    def on_failure(self, handler: H) -> H:
        """Have `async def handler(ctx, error)` run when the workflow fails; it may use steps.

        The run still ends as failed, with the first error. It does not run after a cancel.
        """
        if self.failure is not None:
            raise BadWorkflow(f"workflow {self.name!r} has an on_failure already")
        if not inspect.iscoroutinefunction(handler):
            raise BadWorkflow(
                f"on_failure of {self.name!r} must be `async def handler(ctx, error)`"
            )
        self.failure = handler
        return handler


class App:
    """A set of workflows that one runner runs.

    `types` are the dataclasses, msgspec structs and pydantic models that may be stored; `errors`
    the exception classes that come back as themselves. `retry` is for steps that name none.
    """

    def __init__(
        self,
        name: str,
        *,
        types: Iterable[type] = (),
        errors: Iterable[type[BaseException]] = (),
        retry: Retry | None = None,
    ) -> None:
        if not _is_name(name):
            raise ValueError(f"App name {name!r}: printable text of 1 to 200 characters")
        self.name = name
        self.retry = Retry() if retry is None else retry
        self.codec = Codec(types, errors)
        self.workflows: dict[str, Workflow[Any, Any]] = {}

    def __repr__(self) -> str:
        return f"App({self.name!r})"

    @overload
    def workflow(self, fn: Callable[[Context, I], Awaitable[R]], /) -> Workflow[I, R]: ...
    @overload
    def workflow(self, fn: Callable[[Context], Awaitable[R]], /) -> Workflow[None, R]: ...
    @overload
    def workflow(
        self, /, *, name: str | None = None, on: str | Sequence[str] | None = None
    ) -> _As: ...

    def workflow(
        self,
        fn: Callable[..., Awaitable[Any]] | None = None,
        /,
        *,
        name: str | None = None,
        on: str | Sequence[str] | None = None,
    ) -> Any:
        """Make `async def fn(ctx, input)` or `async def fn(ctx)` a workflow of this app.

        `name` is that of the function unless given; `on` names the events that start it. Raises
        BadWorkflow for another kind of function and for a name that is taken.
        """
        events = (on,) if isinstance(on, str) else tuple(on or ())
        make = _As(self, name, events)
        return make if fn is None else make(fn)


class _As:
    """The decorator with its options filled in."""

    def __init__(self, app: App, name: str | None, on: tuple[str, ...]) -> None:
        self._app = app
        self._name = name
        self._on = on

    @overload
    def __call__(self, fn: Callable[[Context, I], Awaitable[R]], /) -> Workflow[I, R]: ...
    @overload
    def __call__(self, fn: Callable[[Context], Awaitable[R]], /) -> Workflow[None, R]: ...

    def __call__(self, fn: Callable[..., Awaitable[Any]], /) -> Workflow[Any, Any]:
        if not inspect.iscoroutinefunction(fn):
            raise BadWorkflow(
                f"{fn!r} is no workflow: write `async def`, and use ctx.step.run for I/O"
            )
        name = fn.__name__ if self._name is None else self._name
        for text in (name, *self._on):
            if not _is_name(text):
                raise BadWorkflow(
                    f"{text!r} names no workflow or event: printable text of 1 to 200 characters"
                )
        if name in self._app.workflows:
            raise BadWorkflow(
                f"app {self._app.name!r} has a workflow {name!r} already: give one another name="
            )
        flow: Workflow[Any, Any] = Workflow(self._app.name, name, self._on, fn)
        self._app.workflows[name] = flow
        return flow


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= 200 and text.isprintable()


def _takes_input(fn: Callable[..., object]) -> bool:
    places = [
        parameter
        for parameter in inspect.signature(fn).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [parameter for parameter in places if parameter.default is parameter.empty]
    keywords = [
        parameter
        for parameter in inspect.signature(fn).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    if not places or len(needed) > 2 or keywords:
        raise BadWorkflow(
            f"workflow {fn.__qualname__}{inspect.signature(fn)}: write (ctx, input) or (ctx)"
        )
    return len(places) > 1
