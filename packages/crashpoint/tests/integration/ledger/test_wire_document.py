"""The clients that `docs/wire.md` shows do what it says, against the real sockets."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crashpoint.ledger.oracle import count
from crashpoint.model import Outcome
from crashpoint.sources.barrier import PointSocket
from integration.ledger.rig import DEADLINE_S, running, seconds, subject_env

DOCUMENT = Path(__file__).parents[5] / "docs" / "wire.md"


def shown(language: str) -> str:
    """The document's block in that language."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    return block


JAVASCRIPT = """
const { reach, effect } = require("./client.js");
(async () => {
  await reach("b0");
  const receipts = [await effect("charge", { amount: 1, to: "\\u00e9" }, "k")];
  receipts.push(await effect("charge", { to: "\\u00e9", amount: 1 }, "k"));
  await reach("b1");
  receipts.push(await effect("mail", null));
  const refused = await effect("", null).catch((error) => error.message);
  process.env.CRASHPOINT_LEDGER = "/nowhere/to/be/found";
  const gone = await effect("mail", null).catch(() => "gone");
  console.log(JSON.stringify([receipts, refused, gone]));
})();
"""

PYTHON = """
import json, os
from client import reach, effect
reach("b0")
receipts = [effect("charge", {"amount": 1, "to": "\\u00e9"}, "k")]
receipts.append(effect("charge", {"to": "\\u00e9", "amount": 1}, "k"))
reach("b1")
receipts.append(effect("mail", None))
try: effect("", None)
except RuntimeError as error: refused = str(error)
os.environ["CRASHPOINT_LEDGER"] = "/nowhere/to/be/found"
try: effect("mail", None)
except OSError: gone = "gone"
print(json.dumps([receipts, refused, gone]))
"""

SHELL = """
set -eu
. ./client.sh
reach b0 >/dev/null
first=$(effect charge '{"amount":1,"to":"\\u00e9"}')
reach b1 >/dev/null
second=$(effect mail null)
if effect '' null; then refused=no; else refused="effect must be"; fi
printf '[[%s,%s],"%s","gone"]\\n' "$first" "$second" "$refused"
"""


def run_client(tmp_path, command, files):
    """Run a subject between two points; returns what it printed, and its trial."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    async def run():
        async with running(tmp_path) as ledger, PointSocket(tmp_path / "points") as points:
            trial = await ledger.open("t-1")
            source = points.source(trial.token, ["b0", "b1"])
            env = {"CRASHPOINT_POINTS": str(points.path), **subject_env(ledger, trial.token)}
            subject = await asyncio.create_subprocess_exec(
                *command,
                cwd=tmp_path,
                env={**os.environ, **env},
                stdout=subprocess.PIPE,
            )
            told = asyncio.create_task(subject.communicate())
            passed = []
            async with asyncio.timeout(DEADLINE_S):
                async for reached in source.reached():
                    passed.append((reached.point.name, len(await trial.peek()) - 1))
                    reached.release()
                    if len(passed) == 2:
                        break
            ((out, _),) = await seconds(DEADLINE_S, told)
            assert subject.returncode == 0
            points.forget(trial.token)
            return json.loads(out), passed, await trial.seal("note")

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("language", "name", "main", "command"),
    [
        ("javascript", "client.js", JAVASCRIPT, ["node", "main.js"]),
        ("python", "client.py", PYTHON, [sys.executable, "main.py"]),
    ],
)
def test_a_client_of_the_document(tmp_path, language, name, main, command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    files = {name: shown(language), command[1]: main}
    (receipts, refused, gone), passed, chain = run_client(tmp_path, command, files)
    assert passed == [("b0", 0), ("b1", 2)], "each point is where it is announced"
    assert len(set(receipts)) == 3
    assert refused == "effect must be a string of 1 to 4096 characters"
    assert gone == "gone"
    attempts = [r for r in chain.records if r["kind"] == "attempt"]
    assert [a["action"] for a in attempts] == [{"amount": 1, "to": "é"}] * 2 + [None]
    assert not any(a["mismatch"] for a in attempts)
    assert count(chain, ["charge", "mail"]).outcome is Outcome.EXACTLY_ONCE


def test_the_shells_client(tmp_path):
    if shutil.which("socat") is None:
        pytest.skip("no socat here")
    files = {"client.sh": shown("sh"), "main.sh": SHELL}
    (answers, refused, _), passed, chain = run_client(tmp_path, ["sh", "main.sh"], files)
    assert passed == [("b0", 0), ("b1", 1)]
    assert [list(answer) for answer in answers] == [["receipt"], ["receipt"]]
    assert refused == "effect must be"
    assert count(chain, ["charge", "mail"]).outcome is Outcome.EXACTLY_ONCE


def test_ten_lines_of_javascript():
    assert len(shown("javascript").splitlines()) == 10


def test_the_limits_are_the_daemons():
    from crashpoint.ledger import daemon, desk

    text = DOCUMENT.read_text()
    assert daemon.LINE_MAX == 1 << 20
    assert "more than 1 MiB" in text
    assert f"more than {desk.DEPTH_MAX} deep" in text
    assert f"holds {desk.RECORDS_MAX:,} records" in text
    assert f"1 to {desk.TEXT_MAX} characters" in text
    assert f"More than {daemon.PIPELINED_MAX}\nrequests" in text
    assert f"more than {daemon.CONNECTIONS_MAX} connections" in text
