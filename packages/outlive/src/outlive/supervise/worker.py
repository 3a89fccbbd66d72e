"""The process that has the user's code: `python -m outlive.supervise.worker SPEC`.

Its warden started it, renews its lease and ends it in time; it dies with its warden.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Final

import msgspec

from outlive.supervise.parent import die_with
from outlive.supervise.reports import Told, tell

__all__ = ["CANNOT_LOAD", "REFUSED", "Spec", "main"]

CANNOT_LOAD: Final = 2
"""Exit status when there is no app: the same code would fail again."""
REFUSED: Final = 3
"""Exit status when the engine turned it away."""


class Spec(msgspec.Struct, frozen=True):
    """What a worker is to do. The engine's key comes in OUTLIVE_KEY."""

    target: str
    """The app: FILE.py, MODULE, either with :NAME."""
    engine: str
    name: str
    room: int
    threads: int
    replay_always: bool
    log_level: str
    warden: int
    """The process that started it."""
    report: int
    """Descriptor on which it tells its session."""


def main(argument: str) -> int:
    """Run until told to stop; returns the exit status."""
    spec = msgspec.json.decode(argument, type=Spec)
    die_with(spec.warden, signal.SIGKILL)
    os.set_inheritable(spec.report, False)
    logging.basicConfig(
        level=spec.log_level, format=f"%(asctime)s {spec.name} %(name)s %(levelname)s %(message)s"
    )
    from outlive.supervise.load import CannotLoad, load_app

    try:
        app = load_app(spec.target)
    except CannotLoad as error:
        print(f"outlive: {error}", file=sys.stderr)  # noqa: T201  the warden's terminal
        return CANNOT_LOAD
    except Exception:
        logging.getLogger("outlive").exception("%s cannot be imported", spec.target)
        return CANNOT_LOAD
    from outlive.sdk.errors import EngineRefused
    from outlive.sdk.runner import Runner

    def report(session: str, token: str, ttl_ms: int) -> None:
        tell(spec.report, Told(os.getpid(), session, token, ttl_ms))

    runner = Runner(
        app,
        spec.engine,
        key=os.environ.get("OUTLIVE_KEY", ""),
        room=spec.room,
        threads=spec.threads,
        name=spec.name,
        replay_always=spec.replay_always,
        supervised=True,
        on_session=report,
    )
    try:
        runner.run()
    except EngineRefused as error:
        print(f"outlive: the engine refused runner {spec.name}: {error}", file=sys.stderr)  # noqa: T201
        return REFUSED
    return 0


if __name__ == "__main__":
    # A body in a thread that does not end must not hold up the exit.
    status = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
