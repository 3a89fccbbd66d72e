"""The model is what it claims: standard library only, no I/O, the same answer each time."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import crashpoint.model

FOLDER = Path(crashpoint.model.__file__).parent
SRC = FOLDER.parents[1]
MODULES = sorted(FOLDER.glob("*.py"))

# Of the standard library, what a pure function may need; reading arguments is for __main__.
PURE = {
    "collections.abc",
    "dataclasses",
    "enum",
    "hashlib",
    "itertools",
    "json",
    "types",
    "typing",
}
ALLOWED_ALSO = {"__main__": {"argparse", "sys"}}


def run(code: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in an interpreter that finds this package and nothing installed (-S)."""
    head = f"import sys; sys.path.insert(0, {str(SRC)!r})\n"
    return subprocess.run(
        [sys.executable, "-S", *options, "-c", head + code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(str(node.module))
        elif isinstance(node, ast.Name):
            assert node.id != "__import__"
    return found


def lazy_imports(tree: ast.Module) -> set[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {name for function in functions for name in imports(function)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_imports_are_of_the_pure_standard_library_or_our_own(path):
    tree = ast.parse(path.read_text())
    lazy = lazy_imports(tree)
    foreign = {name for name in imports(tree) - lazy if not name.startswith("crashpoint.model.")}
    assert foreign <= PURE | ALLOWED_ALSO.get(path.stem, set())
    assert {name.partition(".")[0] for name in foreign} <= sys.stdlib_module_names
    assert lazy == ({"crashpoint.adapters"} if path.stem == "__main__" else set())


def test_the_walk_sees_the_modules_and_an_impure_import():
    assert {"__init__", "__main__", "predict", "words"} <= {path.stem for path in MODULES}
    tree = ast.parse("import os.path\nfrom socket import x\ndef f():\n    import requests")
    assert imports(tree) == {"os.path", "socket", "requests"}
    assert lazy_imports(tree) == {"requests"}


def test_importing_it_loads_nothing_that_is_not_ours_or_python_s():
    done = run(
        "before = set(sys.modules)\n"
        "import crashpoint.model, crashpoint.model.__main__\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(loaded - sys.stdlib_module_names))",
        "-I",
    )
    assert (done.stdout.split(), done.stderr) == (["crashpoint"], "")


UNDER_AUDIT = """
import itertools
from crashpoint.model import *

everything = list(itertools.product(every_declaration(), Barrier, FaultKind))

def all_of_it():
    for d, barrier, fault in everything:
        predict(d, barrier, fault)
        interpret(d, barrier, fault)
        at_fault(d, barrier)

all_of_it()
watching = True

def hook(event, args):
    if watching:
        raise RuntimeError(event)

sys.addaudithook(hook)
try:
    {act}
    seen = "quiet"
except RuntimeError as raised:
    seen = f"saw {{raised}}"
watching = False
print(seen)
"""


def test_no_audited_event_while_predicting():
    # Stricter than a list of I/O events: opening, connecting, importing, starting a process and
    # everything else that Python audits would raise.
    done = run(UNDER_AUDIT.format(act="all_of_it()"))
    assert (done.stdout, done.stderr) == ("quiet\n", "")


@pytest.mark.parametrize(
    ("act", "event"),
    [
        ("open('/dev/null')", "open"),
        ("import socket", "import"),
        ("import os; os.listdir('.')", "os.listdir"),
    ],
)
def test_the_audit_hook_would_have_seen_it(act, event):
    done = run(UNDER_AUDIT.format(act=act))
    assert (done.stdout, done.stderr) == (f"saw {event}\n", "")


ALL_ANSWERS = """
import json
from crashpoint.model import *

print(json.dumps([
    {
        "rows": as_json(S1_ROWS, fault),
        "digest": predictions_digest(S1_ROWS, fault),
        "product": [predict(d, b, fault) for d in every_declaration() for b in Barrier],
        "table": table(S1_ROWS, fault),
    }
    for fault in FaultKind
]), hash("salted"))
"""


def test_the_same_answer_under_every_hash_seed():
    printed = [run(ALL_ANSWERS, PYTHONHASHSEED=seed).stdout for seed in ("0", "1", "4242")]
    answers, salts = zip(*(line.rstrip().rsplit(" ", 1) for line in printed), strict=True)
    assert len(set(salts)) == 3, "the seeds did change the hashes"
    assert len(set(answers)) == 1
    assert len(json.loads(answers[0])) == 2
