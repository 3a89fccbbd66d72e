"""Progress as lines, and as a drawing on a real pseudo-terminal."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from crashpoint.harness import progress
from crashpoint.harness.progress import LiveProgress, PlainProgress, progress_for

ROWS = [{"name": "r_dup"}, {"name": "r_idem"}]
DEADLINE_S = 30.0
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


def begun(out: io.StringIO, *, k: int = 100) -> PlainProgress:
    plain = PlainProgress(out)
    plain.begin(rows=ROWS, barriers=["b0", "b1", "b2"], k=k, fault="kill")
    return plain


def test_a_fast_run_leaves_two_lines(clock):
    out = io.StringIO()
    plain = begun(out, k=2)
    for row in ("r_dup", "r_idem"):
        for barrier in ("b0", "b1", "b2"):
            for _ in range(2):
                clock.now += 0.1
                plain.trial(row, barrier, "EXACTLY_ONCE", agrees=True)
    plain.end()
    assert out.getvalue() == (
        "2 rows x 3 barriers x 2 = 12 trials, fault kill\n"
        "all trials sealed: 12/12 trials, 1 s, 10.0 trials/s\n"
    )


def test_a_slow_run_says_every_few_seconds_how_far_it_is(clock):
    out = io.StringIO()
    plain = begun(out)
    for _ in range(100):
        clock.now += 0.5
        plain.trial("r_dup", "b0", "EXACTLY_ONCE", agrees=True)
    lines = out.getvalue().splitlines()[1:]
    assert len(lines) == 10, "50 seconds, a line every 5"
    assert lines[0] == "10/600 trials, 5 s, 2.0 trials/s, ETA 295 s"
    plain.end()
    assert out.getvalue().splitlines()[-1] == (
        "stopped before the end: 100/600 trials, 50 s, 2.0 trials/s"
    )


def test_the_first_disagreement_of_a_cell_is_told_at_once_and_counted(clock):
    out = io.StringIO()
    plain = begun(out)
    for outcome, agrees in (("DUPLICATED", True), ("LOST", False), ("LOST", False), ("VOID", True)):
        clock.now += 1
        plain.trial("r_dup", "b1", outcome, agrees=agrees)
    plain.end()
    assert out.getvalue().splitlines()[1:] == [
        "r_dup at b1: a trial is LOST, which was not predicted",
        "stopped before the end: 4/600 trials, 4 s, 1.0 trials/s, 1 VOID, 2 disagreements",
    ]


def test_notes_are_lines_without_control_characters():
    out = io.StringIO()
    PlainProgress(out).note("r_x: an uncrashed run\x1b[2J is LOST\r")
    assert out.getvalue() == "r_x: an uncrashed run\\x1b[2J is LOST\\r\n"


def test_ending_is_allowed_twice_without_a_beginning_and_without_a_trial():
    out = io.StringIO()
    plain = PlainProgress(out)
    plain.end()
    assert out.getvalue() == ""
    plain.begin(rows=ROWS, barriers=["b1"], k=1, fault="freeze")
    plain.end()
    plain.end()
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == [
        "2 rows x 1 barrier x 1 = 2 trials, fault freeze",
        "stopped before the end",
    ]


@pytest.fixture
def terminal():
    controller, subject = pty.openpty()
    with os.fdopen(subject, "w") as stream:
        yield stream
    os.close(controller)


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"TERM": "xterm"}, LiveProgress),
        ({"TERM": "xterm", "CI": "false"}, LiveProgress),
        ({"TERM": "xterm", "NO_COLOR": "1"}, LiveProgress),
        ({"TERM": "xterm", "CI": "true"}, PlainProgress),
        ({"TERM": "dumb"}, PlainProgress),
        ({"TERM": ""}, PlainProgress),
        ({}, PlainProgress),
    ],
)
def test_a_terminal_that_somebody_watches_gets_the_drawing(
    terminal, monkeypatch, environment, kind
):
    for name in ("TERM", "CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert type(progress_for(terminal)) is kind


def test_a_file_gets_lines(monkeypatch, tmp_path):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    with (tmp_path / "log").open("w") as stream:
        assert type(progress_for(stream)) is PlainProgress


PROGRAM = """
import signal, sys
from crashpoint.harness.progress import LiveProgress
live = LiveProgress(sys.stderr)
live.begin(rows=[{"name": "r_dup"}, {"name": "r_idem"}], barriers=["b0", "b1"], k=4, fault="kill")
try:
    for _ in range(3):
        live.trial("r_dup", "b0", "EXACTLY_ONCE", agrees=True)
    live.trial("r_dup", "b0", "VOID", agrees=True)
    live.trial("r_idem", "b1", "LOST", agrees=False)
    live.note("r_other: not run\\x1b[2J")
    HERE
finally:
    live.end()
"""


class Screen:
    """A program on a pseudo-terminal, and everything it wrote there."""

    def __init__(self, here: str, *, columns: int = 100, **environment: str) -> None:
        self.written = ""
        self._controller, subject = pty.openpty()
        given = {k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR"}}
        given |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "30"} | environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("HERE", here)],
            stdin=subject,
            stdout=subprocess.PIPE,
            stderr=subject,
            env=given,
            start_new_session=True,
        )
        os.close(subject)
        self._deadline = time.monotonic() + DEADLINE_S

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        os.close(self._controller)

    def read_until(self, pattern: str) -> None:
        """Wait until the pattern was written; fails at the deadline or when the program ends."""
        while not re.search(pattern, self.written):
            assert self._read(), f"ended without {pattern!r}: {self.written!r}"

    def finish(self) -> int:
        """Read to the end; return the program's exit status."""
        while self._read():
            pass
        return self.process.wait(DEADLINE_S)

    def _read(self) -> bool:
        left = self._deadline - time.monotonic()
        assert left > 0, f"nothing more was written: {self.written!r}"
        assert select.select([self._controller], [], [], left)[0], self.written
        try:
            some = os.read(self._controller, 65536)
        except OSError:  # how Linux says that nobody holds the other side any more
            return False
        self.written += some.decode()
        return bool(some)

    @property
    def cursor_visible(self) -> bool:
        return self.written.rfind(SHOW) >= self.written.rfind(HIDE)


def colourless(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_the_drawing_fills_and_shows_outcomes_rate_and_notes():
    with Screen("signal.pause()") as screen:
        screen.read_until("not run")
        shown = colourless(screen.written)
        assert "2 rows x 2 barriers x 4 = 16 trials, fault kill" in shown
        assert re.search(
            r"5/16 trials, \d+ s, [\d.]+ trials/s, ETA \d+ s, 1 VOID, 1 disagreement", shown
        )
        assert "\N{FULL BLOCK}" * 8 + " 4/4 EXACTLY_ONCE" in shown
        assert "\N{FULL BLOCK}" * 2 + "\N{LIGHT SHADE}" * 6 + " 1/4 LOST!" in shown
        assert "r_other: not run\\x1b[2J" in shown
        assert "\x1b[2J" not in screen.written


def test_at_the_end_the_drawing_gives_way_to_the_notes_and_a_line():
    with Screen("pass") as screen:
        assert screen.finish() == 0
        assert screen.process.stdout.read() == b"", "stdout is not ours"
        tail = colourless(screen.written[screen.written.rindex("\x1b[2K") :]).replace("\r", "")
        assert tail.split("\n")[0].endswith("r_other: not run\\x1b[2J")
        assert tail.split("\n")[1].startswith("stopped before the end: 5/16 trials, ")
        assert tail.split("\n")[1].endswith(", 1 VOID, 1 disagreement")
        assert screen.cursor_visible


def test_an_exception_leaves_a_terminal_that_works():
    with Screen("raise KeyboardInterrupt") as screen:
        assert screen.finish() != 0
        assert "stopped before the end" in screen.written
        assert screen.cursor_visible


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGHUP, signal.SIGSTOP])
def test_a_signal_that_nobody_can_handle_leaves_the_cursor_visible(number):
    with Screen("signal.pause()") as screen:
        screen.read_until("not run")
        screen.process.send_signal(number)
        if number != signal.SIGSTOP:
            assert screen.finish() == -number
        assert screen.cursor_visible


def test_a_narrow_terminal_gets_cells_without_bars():
    with Screen("signal.pause()", columns=60) as screen:
        screen.read_until("not run")
        shown = colourless(screen.written)
        assert " 4/4 EXACTLY_ONCE" in shown
        assert "\N{FULL BLOCK}" not in shown


def test_a_terminal_without_colour_gets_none():
    with Screen("signal.pause()", NO_COLOR="1") as screen:
        screen.read_until("not run")
        assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3|9)\d[;m]", screen.written)


def test_a_terminal_that_knows_ascii_only_gets_that():
    with Screen("signal.pause()", PYTHONIOENCODING="ascii") as screen:
        screen.read_until("not run")
        shown = colourless(screen.written)
        assert "######## 4/4 EXACTLY_ONCE" in shown
        assert "##...... 1/4 LOST!" in shown
        assert shown.isascii()
