"""How fast outlive records steps and comes back, beside the machine's own rate in the same run.

`python benchmarks/runtime.py [--out evidence/bench_runtime.json]`. Engine (one SQLite file, a sync
for each group of commits), runner and this driver are processes of their own; a body appends a line
to a file outside of both. Each round has a fresh store and fresh processes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import uvloop
from runtime_rig import Client, Rig, Worker, commits_ms, median, quantile, syncs_ms

import outlive
from crashpoint.harness.bench import Figure, table, write
from crashpoint.procs.run_folder import RunFolder, run_folder

SEQUENTIAL: Final = 300
RUNS: Final = 200
STEPS: Final = 500
SHORT: Final = 1_000
CONNECTIONS: Final = 64
WARM_UP: Final = 20
PROBES: Final = 1_000
OVER_COMMIT_MAX_MS: Final = 0.6
STEPS_MIN: Final = 10_000
BACK_MAX_MS: Final = 50.0
SLEEP_S: Final = 86_400
IMPORTS: Final = 10
IMPORTED: Final = {
    "import of outlive": "import outlive",
    "import of the runner": "import outlive.sdk.runner, websockets.asyncio.client, uvloop",
}


@dataclass
class Measured:
    """What was measured, a value a round unless it says otherwise; milliseconds where not named."""

    commit: list[float] = field(default_factory=list)
    """Median of a synced commit of one row; before and after each round of steps."""
    sync: list[float] = field(default_factory=list)
    """Median of an append of 200 bytes with fdatasync, as often."""
    step: list[float] = field(default_factory=list)
    """Median between two bodies of one run."""
    step_p99: list[float] = field(default_factory=list)
    over: list[float] = field(default_factory=list)
    """`step` less the mean of the two commits beside it."""
    steps_per_s: list[float] = field(default_factory=list)
    cores: list[dict[str, float]] = field(default_factory=list)
    """What engine and runner used of the machine meanwhile."""
    back: list[float] = field(default_factory=list)
    """From SIGKILL in a body to the body on the other runner; a value a kill."""
    runs_per_s: list[float] = field(default_factory=list)
    sleeper_bytes: float = 0.0
    imports: dict[str, list[float]] = field(default_factory=dict)


def gaps_ms(rig: Rig, run: str) -> list[float]:
    """Milliseconds between the beginnings of one body and the next of a run."""
    times = [at for at, _, of, _ in rig.marks() if of == run]
    return [(later - at) / 1e6 for at, later in itertools.pairwise(times)]


async def warm_up(client: Client) -> None:
    """Have every process have done everything once."""
    await client.finished(await client.start("steps", WARM_UP))


async def sequential(rig: Rig, measured: Measured) -> None:
    """One run of steps, one after the other."""
    async with rig.client() as client:
        await warm_up(client)
        before = probe(rig.folder, measured)
        run = await client.start("steps", SEQUENTIAL)
        await client.finished(run)
        after = probe(rig.folder, measured)
    gaps = gaps_ms(rig, run)
    assert len(gaps) == SEQUENTIAL - 1, f"{len(gaps) + 1} bodies for {SEQUENTIAL} steps"
    measured.step.append(median(gaps))
    measured.step_p99.append(quantile(gaps, 0.99))
    measured.over.append(measured.step[-1] - (before + after) / 2)


def probe(folder: Path, measured: Measured) -> float:
    """The machine's own rate; the median of a commit."""
    measured.sync.append(median(syncs_ms(folder, PROBES)))
    measured.commit.append(median(commits_ms(folder, PROBES)))
    return measured.commit[-1]


async def together(rig: Rig, number: int, each: Callable[[Client, int], Any], ways: int) -> float:
    """Do it so many times over that many connections; the seconds."""
    numbers = iter(range(number))

    async def one() -> None:
        async with rig.client() as client:
            for n in numbers:
                await each(client, n)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(min(ways, number))))
    return time.perf_counter() - began


async def throughput(rig: Rig, measured: Measured) -> None:
    """Many runs at once, from the first start to the last result."""

    async def one(client: Client, _: int) -> None:
        await client.finished(await client.start("steps", STEPS))

    async with rig.client() as client:
        await warm_up(client)
    programs = {"engine": rig.engine, "runner": rig.workers[0].program}
    before = {name: program.cpu_s() for name, program in programs.items()}
    seconds = await together(rig, RUNS, one, RUNS)
    measured.cores.append({n: (p.cpu_s() - before[n]) / seconds for n, p in programs.items()})
    measured.steps_per_s.append(RUNS * STEPS / seconds)
    bodies = len(rig.marks()) - WARM_UP
    assert bodies == RUNS * STEPS, f"{bodies} bodies for {RUNS * STEPS} steps"


async def short(rig: Rig, measured: Measured) -> None:
    """Runs of one step, each asked for and waited for."""

    async def one(client: Client, _: int) -> None:
        await client.finished(await client.start("steps", 1))

    async with rig.client() as client:
        await warm_up(client)
    measured.runs_per_s.append(SHORT / await together(rig, SHORT, one, CONNECTIONS))


async def killed(rig: Rig, measured: Measured, kills: int) -> None:
    """Kill the runner that is in a body, say so, and see the body begin on the other one."""
    async with rig.client() as client, rig.client() as watcher:
        await warm_up(client)
        for n in range(kills):
            run = await client.start("holding", str(rig.folder / f"held-{n}"))
            (first,) = await marked(rig, run, 1)
            victim = next(w for w in rig.workers if w.program.process.pid == first[1])
            rig.workers.remove(victim)
            at = time.monotonic_ns()
            os.kill(first[1], signal.SIGKILL)
            await dead(victim, watcher)
            await client.finished(run)
            again = (await marked(rig, run, 2))[1]
            victim.program.stop()
            assert again[1] != first[1], "the body ran again in another process"
            measured.back.append((again[0] - at) / 1e6)
            await rig.add_worker()


async def dead(worker: Worker, client: Client) -> None:
    """Wait for the process to end, and tell the engine."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    fd = os.pidfd_open(worker.program.process.pid)
    loop.add_reader(fd, ended.set)
    await ended.wait()
    loop.remove_reader(fd)
    os.close(fd)
    await client.ask("POST", f"/v1/sessions/{worker.session}/dead", token=worker.token)


async def marked(rig: Rig, run: str, number: int) -> list[tuple[int, int, str, int]]:
    """Wait for so many bodies of the run."""
    found: list[tuple[int, int, str, int]] = []
    while len(found) < number:
        await asyncio.sleep(0.001)
        found = [mark for mark in rig.marks() if mark[2] == run]
    return found


async def asleep(rig: Rig, measured: Measured, sleepers: int) -> None:
    """What a run costs the engine in memory while it sleeps."""

    async def one(client: Client, _: int) -> None:
        await client.start("sleeping", SLEEP_S)

    async with rig.client() as client:
        await together(rig, sleepers // 10, one, CONNECTIONS)
        await all_asleep(client)
        before = rig.engine.memory()
        await together(rig, sleepers, one, CONNECTIONS)
        await all_asleep(client)
        measured.sleeper_bytes = (rig.engine.memory() - before) / sleepers


async def all_asleep(client: Client) -> None:
    """Wait until no run is with a runner or in the queue."""
    open_runs = 1
    while open_runs:
        await asyncio.sleep(0.05)
        said = await client.ask("GET", "/v1/ready")
        open_runs = said["running"] + said["queued"]


def imports_ms(statement: str) -> list[float]:
    """Milliseconds that a fresh interpreter takes to import, compiled before."""
    program = (
        f"import time; began = time.perf_counter(); {statement}\n"
        "print((time.perf_counter() - began) * 1000)"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took = []
    for _ in range(IMPORTS + 1):
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, env=env
        )
        took.append(float(done.stdout))
    return took[1:]


async def measure(folder: RunFolder, options: argparse.Namespace) -> Measured:
    """Measure everything, in turns."""
    measured = Measured()
    names = (f"round-{n}" for n in itertools.count())

    async def fresh(
        work: Callable[..., Any], *more: Any, workers: int = 1, rounds: int = options.rounds
    ) -> None:
        for _ in range(rounds):
            place = folder.sub(next(names))
            async with Rig.running(place, folder.adopt, workers=workers) as rig:
                await work(rig, measured, *more)

    wanted = options.only
    if "steps" in wanted:
        await fresh(sequential)
    if "many" in wanted:
        await fresh(throughput)
    if "kill" in wanted:
        await fresh(killed, options.kills, workers=2, rounds=1)
    if "short" in wanted:
        await fresh(short)
    if "sleep" in wanted:
        await fresh(asleep, options.sleepers, rounds=1)
    if "import" in wanted:
        measured.imports = {name: imports_ms(code) for name, code in IMPORTED.items()}
    if not measured.commit:
        probe(folder.path, measured)
    return measured


def figures(measured: Measured, sleepers: int) -> list[Figure]:
    """Medians over the rounds, with the least and the most."""
    commit = median(measured.commit)
    beside = f"synced commit of one row {commit:.3f} ms, fdatasync {median(measured.sync):.3f} ms"
    found = []

    def add(
        what: str,
        values: Sequence[float],
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
        reference: str = "",
    ) -> None:
        if not values:
            return
        reached = median(values)
        wanted = f"<= {most:g}" if most else f">= {least:,}" if least else ""
        holds = reached <= most if most else reached >= least if least else None
        spread = f"{min(values):,.4g} to {max(values):,.4g} in {len(values)}"
        reference = f"{spread}; {reference}" if reference else spread
        found.append(Figure(what, reached, unit, wanted, reference, holds))

    add(f"a step of a run of {SEQUENTIAL}, median", measured.step, "ms", reference=beside)
    add("the same, p99", measured.step_p99, "ms")
    add("the same, median less the commit", measured.over, "ms", most=OVER_COMMIT_MAX_MS)
    names = measured.cores[0] if measured.cores else {}
    cores = {name: median([used[name] for used in measured.cores]) for name in names}
    busy = ", ".join(f"{name} {used:.2f} cores" for name, used in cores.items())
    add(
        f"{RUNS} runs of {STEPS} steps",
        measured.steps_per_s,
        "steps/s",
        least=STEPS_MIN,
        reference=f"one by one {1000 / commit:,.0f} commits/s; {busy}",
    )
    ratio = f"{median(measured.back) / commit:,.0f} commits" if measured.back else ""
    add(
        "SIGKILL in a body to the body again",
        measured.back,
        "ms",
        most=BACK_MAX_MS,
        reference=ratio,
    )
    add(f"{SHORT:,} runs of one step over HTTP", measured.runs_per_s, "runs/s")
    if measured.sleeper_bytes:
        add(f"{sleepers:,} sleeping runs, engine", [measured.sleeper_bytes], "bytes/run")
    for name, took in measured.imports.items():
        add(name, took, "ms")
    return found


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


PARTS: Final = ("steps", "many", "kill", "short", "sleep", "import")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when all that is wanted was reached, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks/runtime.py", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--kills", type=positive, default=15)
    parser.add_argument("--sleepers", type=positive, default=100_000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--out", type=Path, help="evidence file to write")
    options = parser.parse_args(argv)
    if options.out is not None and (options.out.is_dir() or not options.out.parent.is_dir()):
        parser.error(f"--out {options.out}: name a file in a folder that exists")
    if options.out is not None and options.only is not PARTS:
        parser.error("--out keeps whole measurements: leave --only out")
    with run_folder() as folder:
        measured = uvloop.run(measure(folder, options))
    found = figures(measured, options.sleepers)
    print(table(found))
    if options.out is not None:
        settings = ["--rounds", options.rounds, "--kills", options.kills]
        settings += ["--sleepers", options.sleepers, "--out", os.path.relpath(options.out)]
        command = shlex.join(["python", "benchmarks/runtime.py", *map(str, settings)])
        package = Path(outlive.__file__).parent
        write(options.out, command, found, asdict(measured), package=package)
    return 0 if all(figure.holds is not False for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
