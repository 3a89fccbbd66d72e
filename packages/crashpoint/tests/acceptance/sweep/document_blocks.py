"""The boxes of docs/sweep.md that are printed by something; `--write` puts them there anew."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

from crashpoint.receivers.dialect import DIALECTS
from crashpoint.sweep.words import KINDS

__all__ = ["DOCUMENT", "EXAMPLES", "in_document", "printed"]

ROOT = Path(__file__).parents[5]
DOCUMENT = ROOT / "docs" / "sweep.md"
EXAMPLES = ROOT / "examples" / "sweep"
BOX = re.compile(
    r"<!-- printed: (?P<name>\w+) -->\n(?P<box>```\w*\n(?s:.*?)```\n|(?:\|.*\n)+|(?=\n))"
)
FENCES = {"agent": "python", "test": "python", "fix": "diff", "failure": "", "story": ""}
"""Boxes that are fenced, with their language; the others are tables."""


def pytest_prints(*arguments):
    """What pytest prints in the examples' folder, without plugins that happen to be there."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "crashpoint.pytest_plugin"),
            *("-p", "no:cacheprovider", "-q", "--tb=short", *arguments),
        ],
        cwd=EXAMPLES,
        env={**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def agent():
    return (EXAMPLES / "agent.py").read_text()


def test():
    return (EXAMPLES / "test_agent.py").read_text().partition('"""\n\n')[2]


def failure():
    out = pytest_prints("test_agent.py")
    (said,) = re.findall(r"(?ms)^(test_agent\.py:\d+: in .*?)\n=+ short", out)
    return "\n".join(line.rstrip() for line in said.splitlines()) + "\n"


def story():
    (worst,) = re.findall(r"--crash-only (\S+)", failure())
    out = pytest_prints("test_agent.py", f"--crash-only={worst}")
    (told,) = re.findall(r"(?ms)^-+ crash story -+\n(.*?)\n=+ short", out)
    return told + "\n"


def fix():
    versions = [(EXAMPLES / name).read_text().splitlines() for name in ("agent.py", "fixed.py")]
    lines = difflib.unified_diff(*versions, "agent.py", "fixed.py", n=0, lineterm="")
    # The first change is what the files say of themselves.
    hunks = re.split(r"(?m)^(?=@@)", "\n".join(lines) + "\n")
    return "".join([hunks[0], *hunks[2:]])


def points():
    rows = [f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items()]
    return "\n".join(["| kind | at this point |", "|---|---|", *rows]) + "\n"


def dialects():
    keys = {
        "none": "ignored: each request acts",
        "forever": "a known key gets the first answer again, for ever",
        "retention": "the same, until the key is forgotten",
        "checked": "the same; 409 while the first is in progress, 422 for another request",
    }
    rows = [
        f"| `{name}` | {keys[dialect.keys]} | {'yes' if dialect.lookup else 'no'}"
        f"{f', after {dialect.visible_within_s:g} s' if dialect.visible_within_s else ''} |"
        for name, dialect in DIALECTS.items()
    ]
    return "\n".join(["| dialect | keys | can be looked up |", "|---|---|---|", *rows]) + "\n"


BOXES = {box.__name__: box for box in (agent, test, failure, story, fix, points, dialects)}


def printed(name):
    """A box as it should stand in the document."""
    text = BOXES[name]()
    return f"```{FENCES[name]}\n{text}```\n" if name in FENCES else text


def in_document():
    """The boxes as they stand there."""
    return {found["name"]: found["box"] for found in BOX.finditer(DOCUMENT.read_text())}


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "usage: document_blocks.py --write"
    text = DOCUMENT.read_text()
    for name in BOXES:
        anew = f"<!-- printed: {name} -->\n{printed(name)}"
        text = BOX.sub(lambda found: anew if found["name"] == name else found[0], text)  # noqa: B023
    DOCUMENT.write_text(text)
