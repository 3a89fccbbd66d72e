"""What a sweep says of programs of which it is known what they do.

`python benchmarks/programs.py [--out evidence/sweep_programs.json]`: fourteen agents with one fault
each and their twins without it, with exceptions and with killed processes; a LangGraph graph of
three nodes without keys and with them; a script with a naive checkpoint and a careful one, as
commands that are killed. `python benchmarks/programs.py graph refunds` takes only some.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.programs import CLEAN, Swept, swept, table, write
from crashpoint.sweep.words import SweepFault

PROGRAMS = Path(__file__).parent.parent / "packages/crashpoint/tests"
"""They lie in sweep_agents/ and sweep_targets/ there, for the tests are about the same ones."""

Known = tuple[Job, Options, str, str]
"""A job, how to sweep it, its fault in words, the outcome of its worst scenario."""


def agents(depth: int) -> Iterator[Known]:
    """The pairs."""
    from sweep_agents.pairs import PAIRS

    for pair in PAIRS:
        for mode in ("raise", "fork"):
            how = pair.options(mode=mode, depth=depth)
            yield pair.job("buggy"), how, pair.fault, pair.outcome
            yield pair.job("right"), how, "none", CLEAN


def targets(depth: int) -> Iterator[Known]:
    """The graph and the scripts."""
    from sweep_targets import graph

    for mode in ("raise", "fork"):
        how = Options(mode=mode, depth=depth)
        yield Job(graph.naive, name="graph_naive"), how, "requests without a key", "DUPLICATED"
        yield Job(graph.keyed, name="graph_keyed"), how, "none", CLEAN
    for name, fault, expected in (
        ("naive_import", "a checkpoint written in place, requests without a key", "DUPLICATED"),
        ("careful_import", "none", CLEAN),
    ):
        command = [sys.executable, str(PROGRAMS / "sweep_targets" / f"{name}.py")]
        yield Job(command, name=name), Options(mode="spawn", depth=depth), fault, expected


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when every program came out as known, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks/programs.py", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only programs that begin so")
    parser.add_argument("--depth", type=int, default=2, help="crashes in one run, at most")
    parser.add_argument("--dedupe", action="store_true", help="recover equal worlds once")
    parser.add_argument("--out", type=Path, help="evidence file to write")
    options = parser.parse_args(argv)
    sys.path.insert(0, str(PROGRAMS))
    every = [*agents(options.depth), *targets(options.depth)]
    chosen = [known for known in every if known[0].name.startswith(tuple(options.names or [""]))]
    if not chosen:
        names = dict.fromkeys(job.name for job, *_ in every)
        parser.error(f"no program begins with {options.names}; there are {', '.join(names)}")
    rows: list[Swept] = []
    for job, how, fault, expected in chosen:
        begun = time.monotonic()
        try:
            report = sweep(job, replace(how, dedupe=options.dedupe))
        except SweepFault as problem:
            sys.exit(f"{job.name}, {how.mode}: {problem}")
        rows.append(swept(report, program=job.name, about=fault, expected=expected))
        seconds = time.monotonic() - begun
        done = f"{len(rows)} of {len(chosen)}: {job.name}, {how.mode}"
        print(f"{done}: {report.scenarios:,} scenarios in {seconds:.1f} s", file=sys.stderr)
    print(table(rows))
    if options.out is not None:
        given = [*options.names, "--depth", str(options.depth)]
        given += ["--dedupe"] * options.dedupe + ["--out", os.path.relpath(options.out)]
        command = shlex.join(["python", "benchmarks/programs.py", *given])
        write(options.out, command, rows, dedupe=options.dedupe)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
