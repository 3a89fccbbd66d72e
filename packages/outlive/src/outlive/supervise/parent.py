"""A child that must not outlive its parent: the kernel sees to it, whatever either is doing."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

__all__ = ["die_with"]

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent: int, number: signal.Signals) -> None:
    """Have the kernel send us that signal when the process `parent`, our parent, ends.

    Where there is no such call (elsewhere than on Linux), the lease alone ends an orphan.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        # It ended before the kernel was asked.
        os._exit(128 + number)
