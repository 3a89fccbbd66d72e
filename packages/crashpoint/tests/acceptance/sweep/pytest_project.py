"""A pytest project in a folder, and runs of it in a pytest of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["Project", "Run"]

AGENTS = Path(__file__).parents[2] / "sweep_jobs.py"
OUTCOME = re.compile(r"(?m)^(PASSED|FAILED|ERROR) \S*?::(.+?)(?: - .*)?$")
PLUGINS = ("-p", "crashpoint.pytest_plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider")


class Run:
    """What one run of pytest printed and how it ended."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.outcomes = {found[2]: found[1].lower() for found in re.finditer(OUTCOME, done.stdout)}

    def said_of(self, test):
        """What the failure of a test printed."""
        parts = re.split(r"^_{3,} (.+?) _{3,}$", self.out, flags=re.MULTILINE)
        titles = [title.replace(".", "::") for title in parts[1::2]]
        return dict(zip(titles, parts[2::2], strict=True))[test]


class Project:
    """A folder with tests; `run` starts pytest there, with crashpoint's plugin and xdist alone."""

    def __init__(self, folder, tests, *, ini=""):
        self.folder = folder
        (folder / "tests").mkdir()
        (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{ini}")
        (folder / "agents.py").write_text(AGENTS.read_text())
        (folder / "tests" / "test_agents.py").write_text(tests)

    def command(self, *arguments):
        """The words of a run."""
        return [sys.executable, "-m", "pytest", *PLUGINS, *arguments]

    def environment(self, **variables):
        """What a run sees: no plugin that happens to be installed, nobody who watches."""
        inherited = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST")}
        return {**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "100", **variables}

    def run(self, *arguments, **variables):
        """Run pytest and wait for its end."""
        done = subprocess.run(
            self.command("-rA", *arguments),
            cwd=self.folder,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        return Run(done)

    def document(self, name):
        """A document that a run wrote into `reports`."""
        return json.loads((self.folder / "reports" / f"{name}.json").read_text())
