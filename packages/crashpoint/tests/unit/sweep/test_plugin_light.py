import subprocess
import sys

CODE = """
import sys, pytest
before = set(sys.modules)
import crashpoint.pytest_plugin
print(sorted(name for name in set(sys.modules) - before if not name.startswith("__")))
"""


def test_the_plugin_imports_nothing_but_itself():
    """It is loaded into every pytest run of every project beside which crashpoint is installed."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['crashpoint', 'crashpoint.pytest_plugin']"
