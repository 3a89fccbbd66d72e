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
from typing import Final, Self

from crashpoint.harness.bench import Figure, table, write
from crashpoint.ledger.book import FILE_NAME, lines_in
from crashpoint.ledger.control import Ledger
from crashpoint.procs.run_folder import run_folder

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


def figures(measured: Measured) -> list[Figure]:
    """Medians over the rounds; a ratio is of one round's two rates."""

    def ratio(rates: Sequence[float]) -> float:
        pairs = zip(rates, measured.append, strict=True)
        return statistics.median(rate / append for rate, append in pairs)

    append = statistics.median(measured.append)
    beside = f"append and sync one by one, {append:,.0f}/s"
    one, several = ratio(measured.one), ratio(measured.several)
    took_ms = statistics.median(measured.import_ms)

    def rate(rates: Sequence[float]) -> str:
        return f"{statistics.median(rates):,.0f}/s beside {beside}"

    return [
        Figure(
            "write and sync into room made before",
            ratio(measured.in_place),
            "x",
            "",
            rate(measured.in_place),
        ),
        Figure(
            "ledger, 1 trial, 1 client process",
            one,
            "x",
            f">= {ONE_MIN}",
            rate(measured.one),
            one >= ONE_MIN,
        ),
        Figure(
            f"ledger, {CLIENTS} trials, {CLIENTS} client processes",
            several,
            "x",
            f"> {SEVERAL_MIN:g}",
            rate(measured.several),
            several > SEVERAL_MIN,
        ),
        Figure(
            "import of the client in a fresh interpreter",
            took_ms,
            "ms",
            f"< {IMPORT_MAX_MS:g}",
            f"median of {IMPORTS}",
            took_ms < IMPORT_MAX_MS,
        ),
    ]


async def run(options: argparse.Namespace) -> Measured:
    """Measure with a ledger in a folder of its own."""
    with run_folder() as folder:
        book = folder.sub("ledger")
        ledger = await Ledger.start(book, folder.sub("sockets"), adopt=folder.adopt)
        try:
            return await measure(ledger, book, options.rounds, options.records)
        finally:
            await ledger.close()


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when all that is wanted was reached, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks/ledger.py", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=9)
    parser.add_argument(
        "--records", type=positive, default=1000, help="records of each kind a round"
    )
    parser.add_argument("--out", type=Path, help="evidence file to write")
    options = parser.parse_args(argv)
    if options.out is not None and (options.out.is_dir() or not options.out.parent.is_dir()):
        parser.error(f"--out {options.out}: name a file in a folder that exists")
    measured = asyncio.run(run(options))
    found = figures(measured)
    print(table(found))
    if options.out is not None:
        settings = f"--rounds {options.rounds} --records {options.records}"
        command = f"python benchmarks/ledger.py {settings} --out {relpath(options.out)}"
        write(options.out, command, found, asdict(measured))
    return 0 if all(figure.holds is not False for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
