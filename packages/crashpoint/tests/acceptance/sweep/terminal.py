"""A process on a terminal of its own, and what would stand on that terminal."""

import os
import pty
import re
import select
import time

__all__ = ["DEADLINE_S", "Terminal", "screen"]

DEADLINE_S = 30.0
STEP = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[\?\d+[hl]|\r|\n|\x1b.|[^\x1b\r\n]+")


class Terminal:
    """What a process prints to a terminal, as it comes. `start(stdin=..., ...)` starts it.

    As a context manager it ends the process, should that not have happened yet.
    """

    def __init__(self, start):
        self._ours, theirs = pty.openpty()
        self.process = start(stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait_for(self, word):
        """Read until a word was printed."""
        deadline = time.monotonic() + DEADLINE_S
        while word not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self._read(deadline), self.text

    def end(self):
        """Read to the end; returns how the process ended."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            assert time.monotonic() < deadline
        os.close(self._ours)
        return self.process.wait(DEADLINE_S)

    def _read(self, deadline):
        if not select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # how a terminal says that nobody writes any more
            return False
        self.text += data.decode(errors="replace")
        return bool(data)


def screen(text):
    """The lines that stand there after the text was printed; colours are passed over."""
    lines, row, column = [""], 0, 0
    for step in STEP.finditer(text):
        number, letter = int(step[1] or 1) if step[2] else 1, step[2]
        if step[0] == "\r":
            column = 0
        elif step[0] == "\n":
            row += 1
        elif letter == "A":
            row = max(0, row - number)
        elif letter == "C":
            column += number
        elif letter == "K":
            lines[row] = lines[row][:column]
        elif not step[0].startswith("\x1b"):
            lines[row] = (
                lines[row].ljust(column)[:column] + step[0] + lines[row][column + len(step[0]) :]
            )
            column += len(step[0])
        lines += [""] * (row + 1 - len(lines))
    return [line.rstrip() for line in lines]
