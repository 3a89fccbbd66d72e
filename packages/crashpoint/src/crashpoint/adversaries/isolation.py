"""A subject under another uid: `python -m crashpoint.adversaries.isolation [--require] [--name N]`.

As root, a real ledger is attacked by a process that gave root up: PASS when all it can do is to
perform effects, FAIL when anything else succeeds. Without root it says BLOCKED, never PASS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crashpoint.adversaries import intruder
from crashpoint.harness.context import command_line, context
from crashpoint.ledger.chain import SealedChain
from crashpoint.ledger.control import Ledger, LedgerFault
from crashpoint.ledger.oracle import count
from crashpoint.model import Outcome
from crashpoint.pipeline.evidence import (
    EvidenceFault,
    chain_of,
    close_document,
    read_document,
    render,
    write_atomically,
)
from crashpoint.procs.run_folder import FolderFault, RunFolder, run_folder

__all__ = ["FORMAT", "check", "main"]

FORMAT: Final = "crashpoint.isolation/1"
NOBODY: Final = 65534
EFFECT: Final = "probe"
INTRUDER_S: Final = 60.0
REFUSALS: Final = frozenset({"EPERM", "EACCES", "ENOSYS"})
"""What counts as a no. Anything else a try met, a file that is not there for one, shows nothing."""
TRIES_MIN: Final = 40
EXIT_FAIL, EXIT_USAGE, EXIT_BLOCKED = 1, 2, 3


@dataclass(frozen=True)
class Probed:
    """What the intruder met, and the chain of the trial that it had a token for."""

    report: Mapping[str, Any]
    chain: SealedChain


def main(argv: Sequence[str] | None = None) -> int:
    """Probe and print.

    Exit 0 PASS or BLOCKED, 1 FAIL, 2 it could not be run, 3 BLOCKED where it is required.
    """
    given = sys.argv[1:] if argv is None else argv
    options = _options(given)
    reason = _blocked()
    if reason is not None:
        print(f"BLOCKED: {reason}")
        return EXIT_BLOCKED if options.require else 0
    try:
        return asyncio.run(_run(options, command_line("crashpoint.adversaries.isolation", given)))
    except (FolderFault, LedgerFault, OSError) as fault:
        print(f"crashpoint: {fault}", file=sys.stderr)
        return EXIT_USAGE


def check(document: Mapping[str, Any]) -> str:
    """Judge a document's probes and chain again; returns what it shows in one line.

    Raises EvidenceFault when they do not show it. The closing seal is checked elsewhere.
    """
    probed = Probed(document["intruder"], chain_of(document, document["trial"]))
    problem = _fault_in(probed, document["uid"])
    if problem is not None:
        raise EvidenceFault(problem)
    return f"{len(probed.report['met'])} tries of uid {document['uid']}, none succeeded"


def _options(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m crashpoint.adversaries.isolation", description=__doc__
    )
    parser.add_argument("--require", action="store_true", help="exit 3 when it is BLOCKED")
    parser.add_argument("--name", help="write the receipt to NAME.json")
    parser.add_argument("--out", type=Path, default=Path("evidence"), help="its folder")
    options = parser.parse_args(given)
    if options.name is not None and not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", options.name):
        parser.error(f"{options.name!r} is no name: letters, digits, '_', '-' and '.'")
    return options


def _blocked() -> str | None:
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return f"it needs root to start a process of another uid, this is uid {os.geteuid()}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import os; os.setgroups([]); os.setuid({NOBODY})"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return f"root cannot become uid {NOBODY} here: {done.stderr.strip().splitlines()[-1]}"
    return None


async def _run(options: argparse.Namespace, command: str) -> int:
    with run_folder() as folder:
        sockets, book = _reachable(folder)
        ledger = await Ledger.start(book, sockets, adopt=folder.adopt, invoke_mode=0o666)
        try:
            probed = await _probe(ledger, folder.path)
            problem = _fault_in(probed, NOBODY)
            _print(probed.report["met"])
            if problem is not None:
                print(f"FAIL: {problem}")
                return EXIT_FAIL
            if options.name is not None:
                target = options.out / f"{options.name}.json"
                body = _body(options.name, command, probed, target)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, render(await close_document(body, ledger)))
                print(f"receipt: {target}")
        finally:
            await ledger.close()
    print(f"PASS: {len(probed.report['met'])} tries, none succeeded; one effect, EXACTLY_ONCE")
    return 0


def _reachable(folder: RunFolder) -> tuple[Path, Path]:
    """Folders for sockets, where only known names can be used, and for the file, root's alone."""
    for parent in folder.path.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise FolderFault(
                f"uid {NOBODY} cannot pass {parent}; set TMPDIR to a folder that everybody can "
                "pass, for example TMPDIR=/tmp"
            )
    sockets, book = folder.sub("sockets"), folder.sub("ledger")
    folder.path.chmod(0o711)
    sockets.chmod(0o711)
    book.chmod(0o700)
    return sockets, book


async def _probe(ledger: Ledger, folder: Path) -> Probed:
    trial = await ledger.open(EFFECT)
    spec = {
        "uid": NOBODY,
        "gid": NOBODY,
        "folder": str(folder),
        "book": str(ledger.folder),
        "sockets": str(ledger.sockets),
        "daemon": ledger.pid,
        "controller": os.getpid(),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", intruder.__file__, json.dumps(spec)),
        env={"CRASHPOINT_TRIAL": trial.token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        said, errors = await asyncio.wait_for(process.communicate(), INTRUDER_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise LedgerFault(f"the intruder did not end within {INTRUDER_S:.0f} s") from None
    if process.returncode != 0:
        last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise LedgerFault(f"the intruder failed (exit {process.returncode}): {last}")
    return Probed({"pid": process.pid, **json.loads(said)}, await trial.seal(""))


def _fault_in(probed: Probed, uid: int) -> str | None:
    """Why the probe shows nothing, or what it shows; None when everything but the effect failed."""
    report, chain = probed.report, probed.chain
    if report["uids"] != [uid] * 3 or report["groups"] or uid == 0:
        return f"the intruder did not become uid {uid}: {report['uids']}, {report['groups']}"
    if len(report["met"]) < TRIES_MIN:
        return f"only {len(report['met'])} tries were made"
    for what, how in report["met"].items():
        if how is None:
            return f"uid {uid} could {what}"
        if how not in REFUSALS:
            return f"{what}: {how} shows nothing"
    if "receipt" not in report["effect"]:
        return f"the effect did not get through: {report['effect'].get('error')}"
    counted = count(chain, [EFFECT])
    if counted.outcome is not Outcome.EXACTLY_ONCE:
        return f"the effect came to {counted.outcome}: {counted.void or 'not once'}"
    peer = chain.records[1]["peer"]
    if (peer["uid"], peer["pid"]) != (uid, report["pid"]):
        return f"the effect is uid {peer['uid']}'s, process {peer['pid']}'s"
    return None


def _print(met: Mapping[str, str | None]) -> None:
    for what, how in met.items():
        print(f"{'SUCCEEDED' if how is None else how:<10} {what}")


def _body(name: str, command: str, probed: Probed, target: Path) -> dict[str, Any]:
    chain = probed.chain
    return {
        "format": FORMAT,
        "kind": "isolation",
        "name": name,
        "command": command,
        **context(),
        "replaces": _receipt_in(target),
        "uid": NOBODY,
        "modes": {"ledger": "0700", "sockets": "0711", "invoke.sock": "0666"},
        "intruder": probed.report,
        "trial": {
            "trial": chain.trial,
            "head": chain.head,
            "count": chain.count,
            "records": list(chain.records),
        },
        "verdict": "PASS",
    }


def _receipt_in(target: Path) -> str | None:
    try:
        receipt: str = read_document(target)["receipt"]
    except (EvidenceFault, KeyError):
        return None
    return receipt


if __name__ == "__main__":
    sys.exit(main())
