"""How fast the ledger acknowledges attempts, beside the machine's own append and sync.

All of it is measured in one run, in turns, because the machine's speed changes from minute to minute:
`python benchmarks/ledger.py [--out evidence/bench_ledger.json]`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from crashpoint.ledger.book import FILE_NAME, lines_in
from crashpoint.ledger.control import Ledger
from crashpoint.procs.run_folder import run_folder

CLIENTS: Final = 8
IMPORTS: Final = 10
IMPORT_LIMIT_MS: Final = 10.0
WARM_UP: Final = 50
"""Records of each kind before anything is timed."""

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
class Rates:
    """Rates of the rounds so far, per second, and the milliseconds of each import."""

    plain: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)
    several: list[float] = field(default_factory=list)
    imports_ms: list[float] = field(default_factory=list)


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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(self, token: str, number: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{token} {number}\n")
        self._process.stdin.flush()

    def times(self) -> tuple[float, float]:
        """When it began and ended, seconds on the machine's monotonic clock."""
        assert self._process.stdout
        began, ended = map(float, self._process.stdout.readline().split())
        return began, ended


def plain_rate(path: Path, size: int, number: int) -> float:
    """Records a second that this machine appends and syncs one by one, without any ledger."""
    record = b"x" * (size - 1) + b"\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    began = time.monotonic()
    for _ in range(number):
        os.write(fd, record)
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
    """Milliseconds that a fresh interpreter takes to import the client."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)


async def measure(rounds: int, records: int) -> tuple[Rates, int]:
    """The rates of each round, and the bytes of the ledger's mean record."""
    rates = Rates()
    with run_folder() as folder, ExitStack() as stack:
        book = folder.sub("ledger")
        ledger = await Ledger.start(book, folder.sub("sockets"), adopt=folder.adopt)
        clients = [stack.enter_context(Client(ledger.invoke_socket)) for _ in range(CLIENTS)]
        await ledger_rate(ledger, clients, WARM_UP, "warm")
        lines = lines_in(book / FILE_NAME)
        size = sum(map(len, lines)) // len(lines)
        plain_rate(book / "plain", size, WARM_UP)
        for n in range(rounds):
            rates.plain.append(plain_rate(book / "plain", size, records))
            rates.one.append(await ledger_rate(ledger, clients[:1], records, f"one-{n}"))
            each = records // CLIENTS * 2
            rates.several.append(await ledger_rate(ledger, clients, each, f"several-{n}"))
        await ledger.close()
    rates.imports_ms = [import_ms() for _ in range(IMPORTS)]
    return rates, size


def table(rates: Rates) -> tuple[str, dict[str, Any]]:
    """The lines to print and the figures to keep."""
    plain, one, several = (statistics.median(r) for r in (rates.plain, rates.one, rates.several))
    took_ms = statistics.median(rates.imports_ms)
    one_ratio = statistics.median(b / a for a, b in zip(rates.plain, rates.one, strict=True))
    several_ratio = statistics.median(c / a for a, c in zip(rates.plain, rates.several, strict=True))
    rows = [
        ("append and sync, one by one", f"{plain:,.0f}/s", "", "", True),
        ("ledger, 1 trial, 1 client", f"{one:,.0f}/s", ">= 0.50", f"{one_ratio:.2f}", one_ratio >= 0.5),
        (
            f"ledger, {CLIENTS} trials, {CLIENTS} clients",
            f"{several:,.0f}/s",
            "> 1.00",
            f"{several_ratio:.2f}",
            several_ratio > 1,
        ),
        (
            "import of the client",
            "",
            f"< {IMPORT_LIMIT_MS:.0f} ms",
            f"{took_ms:.1f} ms",
            took_ms < IMPORT_LIMIT_MS,
        ),
    ]
    lines = [f"{'':32}{'median':>12}{'wanted':>12}{'reached':>12}"]
    lines += [
        f"{name:32}{rate:>12}{wanted:>12}{reached:>12}{'' if holds else '  NO'}"
        for name, rate, wanted, reached, holds in rows
    ]
    figures = {
        "plain_per_s": round(plain, 1),
        "one_per_s": round(one, 1),
        "one_ratio": round(one_ratio, 3),
        "several_per_s": round(several, 1),
        "several_ratio": round(several_ratio, 3),
        "import_ms": round(took_ms, 2),
        "all_hold": all(holds for *_, holds in rows),
    }
    return "\n".join(lines), figures


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit 0 when all that is wanted was reached, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks/ledger.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--records", type=int, default=1000, help="records of each kind a round")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    rates, size = asyncio.run(measure(options.rounds, options.records))
    text, figures = table(rates)
    print(text)
    return 0 if figures["all_hold"] else 1


if __name__ == "__main__":
    sys.exit(main())
