"""Forgery from the subject's side: `python -m crashpoint.adversaries.reflexive [--json]`.

Each attempt runs in a process that has what a subject has, the invoke socket and its trial's token,
against a real ledger of its own; what came of it is read from the sealed chain. Exit 0 when none
succeeded, 1 when one did, 2 when they could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from crashpoint.adversaries import forger
from crashpoint.canonical import NotCanonical, canonical, mac, parse
from crashpoint.ledger.chain import Kind, Record, SealedChain
from crashpoint.ledger.control import DAEMON, Ledger, LedgerFault
from crashpoint.ledger.oracle import count
from crashpoint.model import Outcome
from crashpoint.procs.run_folder import FolderFault, RunFolder, run_folder

__all__ = ["ATTEMPTS", "NOT_CLAIMED", "Finding", "Result", "main"]

COMMAND: Final[Sequence[str]] = DAEMON
FORGER_S: Final = 60.0
"""Longest that one attempt may take, seconds."""


class Result(StrEnum):
    """What came of an attempt."""

    REFUSED = "REFUSED"
    """The ledger said no, or there was nothing to take hold of."""
    HARMLESS = "HARMLESS"
    """It was let through, and nothing that counts is different for it."""
    CAUGHT = "CAUGHT"
    """It was done by force, and the trial is VOID for it."""
    NOT_CLAIMED = "NOT CLAIMED"
    """Not tried: a subject of the same uid can do this, and nothing here prevents it."""
    FORGED = "FORGED"
    """It succeeded."""


@dataclass(frozen=True)
class Finding:
    """One attempt's line."""

    name: str
    result: Result
    why: str


@dataclass(frozen=True)
class Scene:
    """What is known after an attempt: what the subject reports, and what the ledger sealed."""

    report: Mapping[str, Any]
    chain: SealedChain
    other: SealedChain
    """Of a trial that the subject has no token for."""

    @property
    def answers(self) -> Sequence[Mapping[str, Any]]:
        """What the ledger told the subject, in order."""
        answers: Sequence[Mapping[str, Any]] = self.report["told"]
        return answers

    @property
    def recorded(self) -> Sequence[Record]:
        """What the ledger has of the subject."""
        return [r for r in self.chain.records if r["kind"] not in (Kind.OPEN, Kind.SEAL)]


Verdict = tuple[Result, str]
Judge = Callable[[Scene], Verdict]


def main(argv: Sequence[str] | None = None) -> int:
    """Run every attempt and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m crashpoint.adversaries.reflexive", description=__doc__
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(argv)
    try:
        findings = asyncio.run(_run(quiet=options.json))
    except (FolderFault, LedgerFault) as fault:
        print(f"crashpoint: {fault}", file=sys.stderr)
        return 2
    counted = Counter(finding.result for finding in findings)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        tried = [result for result in Result if result is not Result.NOT_CLAIMED]
        numbers = ", ".join(f"{counted[result]} {result}" for result in tried)
        attempts = sum(counted[result] for result in tried)
        print(f"\n{attempts} attempts: {numbers}; {counted[Result.NOT_CLAIMED]} NOT CLAIMED")
    return 1 if counted[Result.FORGED] else 0


async def _run(*, quiet: bool) -> list[Finding]:
    findings = []

    def found(name: str, result: Result, why: str) -> None:
        findings.append(Finding(name, result, why))
        if not quiet:
            print(f"{result:<13}{name:<49}{why}", flush=True)

    with run_folder() as folder:
        for attempt, judge in ATTEMPTS.items():
            found(_title(forger.ATTEMPTS[attempt]), *await _attempt(folder, attempt, judge))
        for name, edit in forger.EDITS.items():
            found(
                f"{_title(edit)}, daemon alive", *await _attempt(folder, f"live:{name}", _unmoved)
            )
        for name, edit in forger.EDITS.items():
            found(f"{_title(edit)}, daemon dead", *await _behind_its_back(folder, name))
        found("Each character of a sealed chain, each cut", *await _by_brute_force(folder))
    for name, why in NOT_CLAIMED.items():
        found(name, Result.NOT_CLAIMED, why)
    return findings


def _title(attempt: Callable[..., Any]) -> str:
    return (attempt.__doc__ or "").rstrip(".")


async def _attempt(folder: RunFolder, attempt: str, judge: Judge) -> Verdict:
    ledger = await _ledger(folder)
    try:
        trial, other = await ledger.open("t"), await ledger.open("t-other")
        async with _forger(ledger, trial.token, attempt) as subject:
            report = await subject.hear()
            chain = None
            if report == "seal now":
                chain = await trial.seal("")
                subject.say("sealed")
                report = await subject.hear()
        scene = Scene(report, chain or await trial.seal(""), await other.seal(""))
    except LedgerFault as fault:
        return Result.FORGED, f"the ledger is gone: {fault}"
    finally:
        await ledger.close()
    return _unsound(scene) or judge(scene)


async def _ledger(folder: RunFolder) -> Ledger:
    place = folder.sub(secrets.token_hex(2))
    (place / "ledger").mkdir()
    return await Ledger.start(place / "ledger", place, adopt=folder.adopt, command=COMMAND)


class _Forger:
    """The lying subject's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def hear(self) -> Any:
        """The next line it prints."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise LedgerFault("the forger died before it had said what it met")
        return json.loads(line)

    def say(self, word: str) -> None:
        """A line for it to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")


@asynccontextmanager
async def _forger(ledger: Ledger, token: str, attempt: str) -> AsyncIterator[_Forger]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", forger.__file__, attempt),
        env={"CRASHPOINT_LEDGER": str(ledger.invoke_socket), "CRASHPOINT_TRIAL": token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        async with asyncio.timeout(FORGER_S):
            yield _Forger(process)
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _unsound(scene: Scene) -> Verdict | None:
    """What no attempt may bring about, whatever it was after."""
    counted = count(scene.chain, ["charge"])
    given = sum("receipt" in answer for answer in scene.answers)
    if counted.void is not None:
        return Result.FORGED, f"it made the trial VOID: {counted.void}"
    if len(scene.recorded) != given:
        return Result.FORGED, f"{given} receipts for {len(scene.recorded)} records"
    if len(scene.other.records) != 2:
        return Result.FORGED, f"it left {len(scene.other.records) - 2} records in another trial"
    strangers = {record["peer"]["pid"] for record in scene.recorded} - set(scene.report["pids"])
    if strangers:
        return Result.FORGED, f"it passed for process {min(strangers)}"
    return None


def _all_refused(scene: Scene) -> Verdict:
    for answer in scene.answers:
        if list(answer) != ["error"]:
            return Result.FORGED, f"it was answered {json.dumps(answer)[:80]}"
    return Result.REFUSED, f"{len(scene.answers)} requests: {scene.answers[0]['error']}"


def _counts_as(outcome: Outcome, crossings: int, attempts: int) -> Judge:
    """The chain must say what really happened, and each attempt that was let in is one."""

    def judge(scene: Scene) -> Verdict:
        effect = count(scene.chain, ["charge"]).effects["charge"]
        seen = (effect.outcome, effect.crossings, effect.attempts)
        if seen != (outcome, crossings, attempts):
            return Result.FORGED, f"counted as {effect.outcome}, {effect.attempts} attempts"
        return Result.HARMLESS, f"counted as what it is: {outcome}, {attempts} attempts"

    return judge


def _no_line_of_its_own(scene: Scene) -> Verdict:
    if scene.recorded:
        return Result.FORGED, f"it got {len(scene.recorded)} records in"
    return _all_refused(scene)


def _tells_nothing(scene: Scene) -> Verdict:
    shapes = {shape for each in scene.report["shapes"].values() for shape in each}
    if len(shapes) != 1:
        return Result.FORGED, f"answers differ in shape: {sorted(shapes)}"
    times = ", ".join(f"{kind} {us}" for kind, us in scene.report["us"].items())
    return Result.HARMLESS, f"one shape for all; median us, not judged: {times}"


def _no_receipt_guessed(scene: Scene) -> Verdict:
    digest = scene.recorded[0]["digest"]
    real = mac(scene.chain.key, "receipt", "j", "charge", "", digest)
    if real in scene.report["guesses"]:
        return Result.FORGED, "it made a receipt for a request that it never sent"
    return Result.REFUSED, f"{len(scene.report['guesses'])} guesses, none is the ledger's"


def _after_the_seal(scene: Scene) -> Verdict:
    return _all_refused(replace(scene, report={"told": scene.answers[1:]}))


def _nothing_to_hold(scene: Scene) -> Verdict:
    found = {name: value for name, value in scene.report["found"].items() if value}
    if found:
        return Result.FORGED, f"within reach: {json.dumps(found)}"
    return Result.REFUSED, "no descriptor, no abstract socket, no other variable"


def _unmoved(scene: Scene) -> Verdict:
    if not scene.report["edited"]:
        return Result.FORGED, "it was not done"
    verdict, why = _counts_as(Outcome.DIVERGED, 2, 2)(scene)
    return verdict, f"the daemon does not read it back; {why}"


async def _behind_its_back(folder: RunFolder, edit: str) -> Verdict:
    """The subject kills the daemon and edits the file; the controller starts another one."""
    ledger = await _ledger(folder)
    try:
        trial = await ledger.open("t")
        async with _forger(ledger, trial.token, f"dead:{edit}") as subject:
            report = await subject.hear()
        await asyncio.wait_for(ledger.died.wait(), FORGER_S)
        if not report["edited"]:
            return Result.FORGED, "it was not done"
        await ledger.restart(COMMAND)
        counted = count(await trial.seal(""), ["charge"])
    except LedgerFault as fault:
        return Result.CAUGHT, f"trial VOID: {str(fault).replace(f'{ledger.folder}/', '')}"
    finally:
        await ledger.close()
    if counted.void is not None:
        return Result.CAUGHT, f"trial VOID: {counted.void}"
    return Result.FORGED, f"counted as {counted.outcome}"


async def _by_brute_force(folder: RunFolder) -> Verdict:
    ledger = await _ledger(folder)
    trial = await ledger.open("t")
    async with _forger(ledger, trial.token, "known_id_other_process") as subject:
        await subject.hear()
    chain = await trial.seal("")
    await ledger.close()
    edits = _edited(chain.records)
    for records in edits:
        if count(replace(chain, records=records), ["charge"]).void is None:
            return Result.FORGED, f"it was believed: {json.dumps(records)[:200]}"
    return Result.CAUGHT, f"{len(edits)} edits, each VOID"


def _edited(records: Sequence[Record]) -> Sequence[Sequence[Any]]:
    """The records with one character or one record wrong."""
    found: list[Sequence[Any]] = [records[:n] for n in range(len(records))]
    found += [[*records[:n], *records[n + 1 :]] for n in range(len(records))]
    found += [[*records[:n], *records[n:][::-1]] for n in range(len(records) - 1)]
    lines = [canonical(record) for record in records]
    found.append([parse(line) for line in forger.rehash_without_key(list(lines))])
    for n, line in enumerate(lines):
        for at, letter in enumerate(line):
            other = b"1" if letter != ord("1") else b"2"
            try:
                changed = parse(line[:at] + other + line[at + 1 :])
            except NotCanonical:
                continue
            found.append([*records[:n], changed, *records[n + 1 :]])
    return found


ATTEMPTS: Final[Mapping[str, Judge]] = {
    "read_over_invoke": _all_refused,
    "read_over_witness": _all_refused,
    "admin_over_invoke": _all_refused,
    "admin_over_witness": _all_refused,
    "other_tokens": _all_refused,
    "another_peer": _all_refused,
    "another_peer_in_the_action": _counts_as(Outcome.EXACTLY_ONCE, 1, 1),
    "a_record_in_the_text": _counts_as(Outcome.DIVERGED, 2, 5),
    "a_record_between_lines": _no_line_of_its_own,
    "known_id_other_action": _counts_as(Outcome.DIVERGED, 2, 2),
    "known_id_other_process": _counts_as(Outcome.DUPLICATED, 2, 2),
    "known_id_many_processes": _counts_as(Outcome.DUPLICATED, 8, 8),
    "tell_new_from_known": _tells_nothing,
    "guess_a_receipt": _no_receipt_guessed,
    "after_the_seal": _after_the_seal,
    "look_around": _nothing_to_hold,
    "crash_it": _all_refused,
}
"""An attempt of `forger`, and who says what came of it."""

NOT_CLAIMED: Final = {
    "Kill or stop the daemon": "the trials open then are VOID",
    "Read the memory of daemon or controller": "same uid may trace them: the run's key is there",
    "Open their descriptors through /proc": "the same",
    "Replace the sockets": "the other subjects then speak to whomever it likes",
    "Fill the disk or the process table": "the run stops; nothing unacknowledged is claimed",
    "Say what is not so": "name, action and key of an effect are the subject's word",
    "Act without saying so": "an effect not performed through the ledger is not seen",
    "Send one request twice for two effects": "from one process, or over its connection in a "
    "child, that is what a re-send is",
}
"""What a subject of the same uid can still do. Another uid takes the first four away:
`crashpoint.adversaries.isolation`."""


if __name__ == "__main__":
    sys.exit(main())
