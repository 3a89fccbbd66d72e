"""Runs that a test takes part in: started, watched, struck, and looked at when they are over."""

import sys
from pathlib import Path

from acceptance.broken_adapter import TESTS
from crashpoint.harness.verify import verify

__all__ = ["BROKEN", "CRASHPOINT", "MATRIX", "OLD", "Run"]

CRASHPOINT = str(Path(sys.executable).with_name("crashpoint"))
MATRIX = ("-m", "crashpoint.harness.matrix")
BROKEN = (str(TESTS / "acceptance" / "broken_adapter.py"),)
OLD = b"what an earlier run found\n"


class Run:
    """One command with --out and --name `m`; `old` is the evidence file that is there before."""

    def __init__(self, place, *arguments, command=MATRIX, bell=None, old=OLD):
        self._place = place
        self.evidence = place.out / "m.json"
        self.partial = place.out / "m.partial.json"
        self.sealed = place.out / "m.partial.jsonl"
        if old is not None:
            self.evidence.write_bytes(old)
        env = {**place.env, **(bell.env if bell else {})}
        out = ("--out", str(place.out), "--name", "m")
        self.process = place.start(*command, *arguments, *out, env=env)

    def end(self):
        """Wait for its end."""
        out, self.err = self.process.communicate(timeout=60)
        assert "Traceback" not in out + self.err, out + self.err
        self.code = self.process.returncode

    def said(self):
        """The one line that says what was wrong."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("Error: ")]
        return line

    def files(self):
        """Names of what it left in --out."""
        return sorted(path.name for path in self._place.out.iterdir())

    def kept_the_old_evidence(self):
        """Whether the file of before is untouched."""
        return self.evidence.read_bytes() == OLD

    def sealed_trials(self):
        """How many trials its partial file holds; asserts that it verifies."""
        checked = verify(self.sealed)
        assert checked.warnings == ("PARTIAL: not closed",)
        return int(checked.says.split()[0])
