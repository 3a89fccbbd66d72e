"""How fast the ledger acknowledges attempts, beside the machine's own append and sync.

`python benchmarks/ledger.py [--out evidence/bench_ledger.json]` measures all of it in one run, in
turns, because a machine's speed changes from minute to minute. The ledger writes into room that it
made before, which is faster than appending; the table's second line says what that alone gives.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from os.path import relpath
from pathlib import Path
from typing import Any, Final, Self

from crashpoint.harness.context import context
from crashpoint.ledger.book import FILE_NAME, lines_in
from crashpoint.ledger.control import Ledger
from crashpoint.pipeline.evidence import close_document, render, write_atomically
from crashpoint.procs.run_folder import run_folder

FORMAT: Final = "crashpoint.benchmark/1"
CLIENTS: Final = 8
IMPORTS: Final = 10
WARM_UP: Final = 50
"""Records of each kind before anything is timed."""
ONE_MIN: Final = 0.5
SEVERAL_MIN: Final = 1.0
IMPORT_MAX_MS: Final = 10.0

ACTION: Final = {"amount": 100, "to": "account-7"}

CLIENT: Final = f"""
import os, sys, time
from crashpoint.inside.client import effect
for line in sys.stdin:
    os.environ["CRASHPOINT_TRIAL"], number = line.split()
    began = time.monotonic()
    for n in range(int(number)):
        effect("charge", {ACTION!r}, key=f"order-{{n}}")
    print(began, time.monotonic(), flush=True)
"""

IMPORT: Final = """
import time
began = time.perf_counter()
import crashpoint.inside.client
print((time.perf_counter() - began) * 1000)
"""


@dataclass
class Measured:
    """Rates per second, one of each a round; the bytes of a record; milliseconds of each import."""

    append: list[float] = field(default_factory=list)
    in_place: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)
    several: list[float] = field(default_factory=list)
    import_ms: list[float] = field(default_factory=list)
    record_bytes: int = 0


class Client:
    """A process that performs effects through the real client when it is told to."""

    def __init__(self, socket: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CRASHPOINT_LEDGER": str(socket)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(self, token: str, number: int) -> None:
        """Have it perform so many effects in the trial of that token."""
        assert self._process.stdin
        self._process.stdin.write(f"{token} {number}\n")
        self._process.stdin.flush()

    def times(self) -> tuple[float, float]:
        """When it began and ended, seconds on the machine's monotonic clock."""
        assert self._process.stdout
        began, ended = map(float, self._process.stdout.readline().split())
        return began, ended


def disk_rate(path: Path, size: int, number: int, *, room: int = 0) -> float:
    """Records a second that the machine writes and syncs one by one, without any ledger.

    `room` bytes of zeros are in the file before; without them each record makes it longer.
    """
    record = b"x" * (size - 1) + b"\n"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.pwrite(fd, bytes(room), 0)
    os.fsync(fd)
    began = time.monotonic()
    for n in range(number):
        os.pwrite(fd, record, n * size)
        os.fdatasync(fd)
    took = time.monotonic() - began
    os.close(fd)
    return number / took


async def ledger_rate(ledger: Ledger, clients: Sequence[Client], number: int, name: str) -> float:
    """Acknowledged attempts a second, `number` from each client, a trial for each."""
    trials = [await ledger.open(f"{name}-{n}") for n in range(len(clients))]
    for client, trial in zip(clients, trials, strict=True):
        client.start(trial.token, number)
    times = [await asyncio.to_thread(client.times) for client in clients]
    for trial in trials:
        sealed = await trial.seal("")
        assert sealed.count == number + 2, "each attempt acknowledged is in the chain"
    began, ended = zip(*times, strict=True)
    return number * len(clients) / (max(ended) - min(began))


def import_ms() -> float:
    """Milliseconds that a fresh interpreter takes to import the client, compiled before."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], stdout=subprocess.PIPE, text=True, check=True, env=env
    )
    return float(done.stdout)


async def measure(ledger: Ledger, book: Path, rounds: int, records: int) -> Measured:
    """Measure everything in turns; `book` is the folder of the ledger's file."""
    measured = Measured()
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(ledger.invoke_socket)) for _ in range(CLIENTS)]
        await ledger_rate(ledger, clients, WARM_UP, "warm-up")
        lines = lines_in(book / FILE_NAME)
        size = measured.record_bytes = sum(map(len, lines)) // len(lines)
        disk_rate(book / "plain", size, WARM_UP)
        for n in range(rounds):
            room = records * size
            measured.append.append(disk_rate(book / "plain", size, records))
            measured.one.append(await ledger_rate(ledger, clients[:1], records, f"one-{n}"))
            measured.in_place.append(disk_rate(book / "plain", size, records, room=room))
            each = records // CLIENTS * 2
            measured.several.append(await ledger_rate(ledger, clients, each, f"several-{n}"))
    import_ms()
    measured.import_ms = [import_ms() for _ in range(IMPORTS)]
    return measured


def summary(measured: Measured) -> dict[str, Any]:
    """Medians over the rounds; ratios are of one round's two rates."""

    def ratio(rates: Sequence[float]) -> float:
        pairs = zip(rates, measured.append, strict=True)
        return statistics.median(rate / append for rate, append in pairs)

    found = {
        "append_per_s": statistics.median(measured.append),
        "in_place_per_s": statistics.median(measured.in_place),
        "one_per_s": statistics.median(measured.one),
        "several_per_s": statistics.median(measured.several),
        "in_place_ratio": ratio(measured.in_place),
        "one_ratio": ratio(measured.one),
        "several_ratio": ratio(measured.several),
        "import_ms": statistics.median(measured.import_ms),
    }
    holds = {
        "one": found["one_ratio"] >= ONE_MIN,
        "several": found["several_ratio"] > SEVERAL_MIN,
        "import": found["import_ms"] < IMPORT_MAX_MS,
    }
    return {**{name: round(value, 3) for name, value in found.items()}, "holds": holds}


def table(found: dict[str, Any]) -> str:
    """What was wanted beside what was reached."""
    several = f"ledger, {CLIENTS} trials, {CLIENTS} client processes"
    rows = [
        ("append and sync, one by one", "append", "", None),
        ("write and sync into room made before", "in_place", "", None),
        ("ledger, 1 trial, 1 client process", "one", f">= {ONE_MIN:.2f}", "one"),
        (several, "several", f"> {SEVERAL_MIN:.2f}", "several"),
    ]
    lines = [f"{'median':>54}{'wanted':>10}{'reached':>10}"]
    for label, name, wanted, check in rows:
        reached = "" if name == "append" else f"{found[f'{name}_ratio']:.2f}"
        verdict = "" if check is None or found["holds"][check] else "  NO"
        lines.append(
            f"{label:42}{found[f'{name}_per_s']:>10,.0f}/s{wanted:>10}{reached:>10}{verdict}"
        )
    took, verdict = f"{found['import_ms']:.1f} ms", "" if found["holds"]["import"] else "  NO"
    lines.append(f"{'import of the client':54}{f'< {IMPORT_MAX_MS:.0f} ms':>10}{took:>10}{verdict}")
    return "\n".join(lines)


async def run(options: argparse.Namespace) -> int:
    """Measure, print, and write evidence when asked to."""
    with run_folder() as folder:
        book = folder.sub("ledger")
        ledger = await Ledger.start(book, folder.sub("sockets"), adopt=folder.adopt)
        measured = await measure(ledger, book, options.rounds, options.records)
        found = summary(measured)
        print(table(found))
        if options.out is not None:
            settings = f"--rounds {options.rounds} --records {options.records}"
            body = {
                "format": FORMAT,
                "kind": "benchmark",
                "name": options.out.stem,
                "command": f"python benchmarks/ledger.py {settings} --out {relpath(options.out)}",
                **context(),
                "clients": CLIENTS,
                "rounds": options.rounds,
                "records": options.records,
                "measured": asdict(measured),
                "summary": found,
            }
            write_atomically(options.out, render(await close_document(body, ledger)))
        await ledger.close()
    return 0 if all(found["holds"].values()) else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when all that is wanted was reached, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks/ledger.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--records", type=int, default=1000, help="records of each kind a round")
    parser.add_argument("--out", type=Path, help="evidence file to write")
    return asyncio.run(run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
