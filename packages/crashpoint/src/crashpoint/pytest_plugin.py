"""The pytest plugin: fixtures `crash_sweep`, `tracker`, `payments` and `person`, and their options.

Loaded into every pytest run of an environment that has crashpoint, so it imports nothing but pytest
until a test asks for one of its fixtures.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from crashpoint.receivers.client import Payments, Person, Tracker
    from crashpoint.sweep.fixture import CrashSweep, Tell

MODES = ("raise", "fork", "spawn")
SECTION = "crash story"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and their ini counterparts."""
    group = parser.getgroup("crashpoint", "crash sweeps (crashpoint)")
    group.addoption(
        "--crash-depth",
        type=_depth,
        metavar="N",
        help="crash a run up to N times, restarts included (default: ini crash_depth, or 2)",
    )
    group.addoption(
        "--crash-mode",
        choices=MODES,
        help="how to crash: raise an exception in process, kill a fork, kill a command "
        "(default: ini crash_mode, or raise)",
    )
    group.addoption(
        "--crash-only",
        metavar="ID",
        help="run only this scenario of the selected test's sweep, and print its story",
    )
    group.addoption(
        "--crash-report",
        metavar="DIR",
        help="write each sweep's report (JSON, HTML, repro.py) to DIR (default: ini crash_report)",
    )
    parser.addini("crash_depth", "crash a run up to so many times (2)", default="")
    parser.addini("crash_mode", "how sweeps crash: raise, fork or spawn (raise)", default="")
    parser.addini("crash_report", "folder for the reports of sweeps (none)", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Check the ini file's values, and get ready to show a story."""
    mode, depth = config.getini("crash_mode"), config.getini("crash_depth")
    if mode and mode not in MODES:
        raise pytest.UsageError(f"ini crash_mode: {mode!r} is none of {', '.join(MODES)}")
    if depth and not re.fullmatch(r"[1-9]\d*", depth):
        raise pytest.UsageError(f"ini crash_depth: {depth!r} is not a whole number from 1")
    if config.getoption("crash_only") is not None:
        config.pluginmanager.register(_Stories(), "crashpoint-stories")


@pytest.fixture
def crash_sweep(request: pytest.FixtureRequest) -> Iterator[CrashSweep]:
    """Crash a job at every point and every restart at every point it reaches; returns a Report.

    `crash_sweep(start, resume=None, *, depth, mode, receivers, person, limit_s, dedupe,
    compare_result, effect, expected, fault)`: see docs/sweep.md.
    """
    from crashpoint.sweep import inprocess
    from crashpoint.sweep.fixture import CrashSweep, Test

    config, item = request.config, request.node
    depth, folder = _chosen(config, "crash_depth"), _chosen(config, "crash_report")
    test = Test(
        node=item.nodeid,
        command=_command(config, item),
        mode=_chosen(config, "crash_mode") or "raise",
        depth=int(depth or 2),
        only=config.getoption("crash_only"),
        folder=config.invocation_params.dir / folder if folder else None,
        fail=_fail,
        show=lambda text: item.stash.setdefault(_told, []).append(text),
        watch=lambda: _watch(config),
    )
    fixture = CrashSweep(test)
    with _uncaptured(config, 2) as stderr:
        inprocess.last_words_fd = stderr
        try:
            yield fixture
        finally:
            inprocess.last_words_fd = 2
    fixture.close()


@pytest.fixture
def tracker() -> Tracker:
    """The issue tracker of the world that is being swept."""
    from crashpoint.receivers import routes

    return routes.tracker()


@pytest.fixture
def payments() -> Payments:
    """The payments service of the world that is being swept."""
    from crashpoint.receivers import routes

    return routes.payments()


@pytest.fixture
def person() -> Person:
    """The person who can be asked whether a request was done."""
    from crashpoint.receivers import routes

    return routes.person()


_told: pytest.StashKey[list[str]] = pytest.StashKey()


class _Stories:
    """Puts the story of the scenario that was asked for into the test's report, and prints it."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call":
            report.sections += [(SECTION, text) for text in item.stash.get(_told, [])]
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Failures show their sections anyway."""
        for report in terminalreporter.getreports("passed"):
            for name, text in report.sections:
                if name == SECTION:
                    terminalreporter.section(f"{SECTION} of {report.nodeid}")
                    terminalreporter.write_line(text)


def _fail(line: str) -> NoReturn:
    pytest.fail(line, pytrace=False)


def _depth(text: str) -> int:
    depth = int(text)
    if depth < 1:
        raise ValueError(text)
    return depth


def _chosen(config: pytest.Config, name: str) -> Any:
    """An option of the command line or, without one, of the ini file."""
    option = config.getoption(name)
    return config.getini(name) if option is None else option


def _command(config: pytest.Config, item: pytest.Item) -> str:
    """How to run this test again from where pytest was started."""
    path = os.path.relpath(item.path, config.invocation_params.dir)
    words = ["pytest", f"{path}::{item.nodeid.partition('::')[2]}"]
    mode = config.getoption("crash_mode")
    # A scenario's number counts the points of its mode.
    return shlex.join([*words, f"--crash-mode={mode}"] if mode else words)


def _watch(config: pytest.Config) -> tuple[Tell, Callable[[], None]]:
    """Show how far a sweep is, where somebody looks."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    is_shown = reporter is not None and getattr(reporter, "isatty", False)
    if not is_shown or reporter.verbosity < 0 or os.environ.get("CI", "") not in {"", "0", "false"}:
        return (lambda _scenario, _report: None), (lambda: None)
    from crashpoint.sweep.live import LiveLine

    line = LiveLine(column=getattr(reporter._tw, "width_of_current_line", 0))  # noqa: SLF001
    with _uncaptured(config, 1) as stdout:
        line.open(stdout)
    return line.tell, line.close


@contextmanager
def _uncaptured(config: pytest.Config, number: int) -> Iterator[int]:
    """A descriptor for what `number` (1 or 2) is when nothing is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        copy = os.dup(number)
    else:
        with capture.global_and_fixture_disabled():
            copy = os.dup(number)
    try:
        yield copy
    finally:
        os.close(copy)
