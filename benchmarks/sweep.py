"""How fast the sweep goes, each way beside what limits it, in one run.

`python benchmarks/sweep.py [--out evidence/bench_sweep.json]`. The five designs, equal worlds
recovered each for itself: exceptions in memory; exceptions with real files, beside a loop that
makes as many saves and nothing else; killed forks, beside forks of this same process that are
killed at once. And the memory of a sweep in its course.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import signal
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from crashpoint.harness.bench import Figure, table, write
from crashpoint.sweep.designs import DESIGNS, Design
from crashpoint.sweep.engine import Sweep
from crashpoint.sweep.scratch import memory_folder
from crashpoint.sweep.table import MODES

SCENARIOS_MIN: Final = 8_000
FILES_MAX: Final = 1.5
FORK_MIN: Final = 0.5
MEMORY_MAX: Final = 1.2
MEMORY_EVERY: Final = 100
STATE: Final = {
    "turns": [
        {
            "calls": [["call-1", "file", {"title": "login fails on a space"}]] * 2,
            "results": {"call-1": 1, "call-2": 2},
            "closed": True,
        }
    ]
    * 2,
    "markers": ["call-1", "call-2"],
    "done": False,
}
"""About what a design saves in the middle of its run."""


def swept(mode: str, designs: Sequence[Design], *, depth: int = 2) -> dict[str, Any]:
    """Sweep the designs; scenarios, process lifetimes, saves, seconds."""
    scenarios = lifetimes = saves = 0
    began = time.perf_counter()
    for design in designs:
        with MODES[mode](design) as crasher:
            run = crasher.run

            def counting(world: Any, *, run: Callable[..., Any] = run, **how: Any) -> Any:
                nonlocal saves, lifetimes
                process = run(world, **how)
                saves += process.passed.count("tmp")
                lifetimes += 1
                return process

            if mode != "raise":
                crasher.run = counting
            scenarios += sum(1 for _ in Sweep(crasher, depth=depth, dedupe=False).scenarios())
    seconds = time.perf_counter() - began
    return {"scenarios": scenarios, "lifetimes": lifetimes, "saves": saves, "seconds": seconds}


def bare_saves(number: int) -> float:
    """Seconds for encoding the state, writing it aside and renaming it, so many times."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        path = f"{folder}/state.json"
        began = time.perf_counter()
        for _ in range(number):
            text = json.dumps(STATE, separators=(",", ":"))
            with open(path + ".tmp", "w", encoding="utf-8") as file:  # noqa: PTH123  bare
                file.write(text)
            os.replace(path + ".tmp", path)  # noqa: PTH105  bare
        return time.perf_counter() - began


def bare_forks(number: int) -> float:
    """Forks of this process a second that say a byte and are killed."""
    began = time.perf_counter()
    for _ in range(number):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(sink, b".")
            while True:
                signal.pause()
        os.read(source, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(source)
        os.close(sink)
    return number / (time.perf_counter() - began)


def memory_during() -> list[tuple[int, int]]:
    """Traced memory in the course of one long sweep: after how many scenarios, how many bytes."""
    seen = []
    tracemalloc.start()
    with MODES["raise"](DESIGNS[0]) as crasher:
        run = Sweep(crasher, depth=3, dedupe=False)
        for n, _ in enumerate(run.scenarios(), start=1):
            if n % MEMORY_EVERY == 0:
                gc.collect()
                seen.append((n, tracemalloc.get_traced_memory()[0]))
    tracemalloc.stop()
    return seen


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when all that is wanted was reached, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks/sweep.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="evidence file to write")
    options = parser.parse_args(argv)
    swept("raise", DESIGNS[:1])
    memory, files, ratios, forks, fork_ratios = [], [], [], [], []
    for _ in range(options.rounds):
        memory.append(swept("raise", DESIGNS))
        files.append(swept("files", DESIGNS))
        ratios.append(files[-1]["seconds"] / bare_saves(files[-1]["saves"]))
    for _ in range(max(1, options.rounds // 2)):
        raw = bare_forks(300)
        run = swept("fork", DESIGNS[2:3])
        forks.append(run | {"raw_per_s": raw})
        fork_ratios.append(run["lifetimes"] / run["seconds"] / raw)
    per_s = statistics.median(run["scenarios"] / run["seconds"] for run in memory)
    ratio = statistics.median(ratios)
    fork_ratio = statistics.median(fork_ratios)
    course = memory_during()
    early = max(taken for _, taken in course[:2])
    late = max(taken for _, taken in course[-2:])
    lifetimes = statistics.median(run["lifetimes"] / run["seconds"] for run in forks)
    raw = statistics.median(run["raw_per_s"] for run in forks)
    figures = [
        Figure(
            f"raise in memory, {memory[0]['scenarios']:,} scenarios",
            per_s,
            "scenarios/s",
            f">= {SCENARIOS_MIN:,}",
            "one process",
            per_s >= SCENARIOS_MIN,
        ),
        Figure(
            "raise with real files, time",
            ratio,
            "x",
            f"<= {FILES_MAX}",
            f"a loop of the same {files[0]['saves']:,} saves (encode, write, rename)",
            ratio <= FILES_MAX,
        ),
        Figure(
            "fork, process lifetimes",
            fork_ratio,
            "x",
            f">= {FORK_MIN}",
            f"bare fork and kill of the same process ({lifetimes:,.0f} of {raw:,.0f} a second)",
            fork_ratio >= FORK_MIN,
        ),
        Figure(
            f"memory after {course[-1][0]:,} scenarios",
            late / early,
            "x",
            f"<= {MEMORY_MAX}",
            f"the same sweep after {course[1][0]:,} ({early / 1e3:.0f} kB)",
            late / early <= MEMORY_MAX,
        ),
    ]
    print(table(figures))
    if options.out is not None:
        command = ["python", "benchmarks/sweep.py", "--rounds", str(options.rounds), "--out"]
        measured = {"memory": memory, "files": files, "forks": forks, "memory_bytes": course}
        write(options.out, shlex.join([*command, os.path.relpath(options.out)]), figures, measured)
    return 0 if all(figure.holds is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
