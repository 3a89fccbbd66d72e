"""The refund workflow with worker, engine, both, or warden killed at everything that happens.

`python benchmarks/refund_kills.py [--k 3] [--out evidence/refund_kills.json]`. Each trial is a
fresh `outlive up examples/refund.py` with two runners, one ticket, one SIGKILL, and a payments
service of this process that counts refunds: one that honours the idempotency key, and one that has
never heard of keys. Points are the entries of the run's record, its end, and the two instants
that no record can tell apart: the request has arrived and nothing was done, and the refund was made
and the answer is not out.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from crashpoint.harness.bench import Figure, table, write
from crashpoint.procs.run_folder import RunFolder, run_folder
from outlive.client import ApiRefused, Client, EngineAway

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "refund.py"
TARGETS: Final = ("worker", "engine", "worker and engine", "warden")
PAYEES: Final = ("keyed", "keyless")
BEFORE, AFTER, END = "request arrived", "refund made", "end"
ENTRIES: Final = ("triage done", "sleep asked", "sleep met", "refund done")
POINTS: Final = (*ENTRIES[:3], BEFORE, AFTER, ENTRIES[3], END)
COOL_OFF: Final = "0.3s"
LIMIT_S: Final = 60.0


class Payments:
    """Counts refunds. `hold` names the instant at which it stops until `go` is set."""

    def __init__(self, *, keyed: bool, hold: str) -> None:
        self.requests: list[str] = []
        self.refunds: dict[str, int] = {}
        """Key -> refunds made under it."""
        self.reached = threading.Event()
        self.go = threading.Event()
        self._keyed = keyed
        self._hold = hold
        self._lock = threading.Lock()
        payments = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                answer = payments.refund(self.headers["Idempotency-Key"])
                with contextlib.suppress(OSError):  # nobody may be there any more
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its own name
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def refund(self, key: str) -> bytes:
        """One request."""
        with self._lock:
            self.requests.append(key)
        self._pause(BEFORE)
        with self._lock:
            if not self._keyed or key not in self.refunds:
                self.refunds[key] = self.refunds.get(key, 0) + 1
        self._pause(AFTER)
        return json.dumps({"id": f"R-{key[:8]}"}).encode()

    def _pause(self, instant: str) -> None:
        if self._hold == instant and not self.go.is_set():
            self.reached.set()
            self.go.wait(LIMIT_S)

    def close(self) -> None:
        """End it."""
        self.go.set()
        self._server.shutdown()
        self._server.server_close()


class Up:
    """`outlive up`, and which processes it says it has."""

    ENGINE = re.compile(r"engine (http\S+), process (\d+)")
    READY = re.compile(r"runner-(\d+): worker (\d+) of warden (\d+) is ready")

    def __init__(self, folder: Path, payments: str) -> None:
        self.url = ""
        self.engine = 0
        self.workers: dict[str, tuple[int, int]] = {}
        """Runner -> worker and warden."""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "outlive", "up", str(EXAMPLE), "--listen", "127.0.0.1:0"],
            cwd=folder,
            env={**os.environ, "REFUNDS": payments, "COOL_OFF": COOL_OFF},
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("wb"),
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process of `outlive up` itself."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                if found := self.ENGINE.search(line):
                    self.url, self.engine = found[1], int(found[2])
                elif found := self.READY.search(line):
                    self.workers[f"runner-{found[1]}"] = (int(found[2]), int(found[3]))
                self._changed.notify_all()

    def ready(self) -> None:
        """Wait for the engine and both runners."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.workers) == 2, LIMIT_S):
                raise TimeoutError(f"outlive up was not ready after {LIMIT_S:g} s")

    def stop(self) -> int:
        """Have it end; its exit status."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(LIMIT_S)
        finally:
            self._process.kill()
            if self._process.stdout is not None:
                self._process.stdout.close()


@dataclass(frozen=True)
class Trial:
    """What came of one: `refunds` were made by so many `requests`."""

    payee: str
    target: str
    point: str
    state: str
    refunds: int
    requests: int
    recover_s: float
    right: bool
    """Whether the result is the uncrashed one and no step was recorded twice."""


def until(holds: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is yes; an engine that is away has none."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        with contextlib.suppress(EngineAway, ApiRefused):
            if found := holds():
                return found
    raise TimeoutError(f"{what} did not come in {LIMIT_S:g} s")


def trial(folder: Path, payee: str, target: str, point: str) -> Trial:
    """Kill once, and see what becomes of it."""
    payments = Payments(keyed=payee == "keyed", hold=point)
    up = Up(folder, payments.url)
    try:
        up.ready()
        client = Client(up.url)
        ticket = {"id": "T-1", "cents": 4200}
        (run,) = client.send("support", "ticket.created", ticket, id="T-1")["started"]
        wait_for(client, payments, run, point)
        victims, dying = victims_of(up, client, run, target)
        at = time.monotonic()
        kill(victims, dying)
        payments.go.set()
        found = until(lambda: ended(client, run), "the end of the run")
        recover_s = time.monotonic() - at
        steps = client.get(f"/v1/runs/{run}/steps")["steps"]
        done = [step["call"] for step in steps if step["kind"] in {"done", "met"}]
        key = next(iter(payments.refunds), "")
        right = found.get("result") == {"refund": f"R-{key[:8]}"} and len(done) == len(set(done))
        return Trial(
            payee,
            target,
            point,
            found["state"],
            sum(payments.refunds.values()),
            len(payments.requests),
            recover_s,
            right,
        )
    finally:
        payments.go.set()
        up.stop()
        payments.close()


def ended(client: Client, run: str) -> dict[str, Any] | None:
    """The run, if it will not move any more."""
    found = client.run(run, wait_s=1)
    return found if found["state"] in {"completed", "failed", "needs_attention"} else None


def wait_for(client: Client, payments: Payments, run: str, point: str) -> None:
    """Return when the point is there."""
    if point in {BEFORE, AFTER}:
        if not payments.reached.wait(LIMIT_S):
            raise TimeoutError(f"{point} did not come in {LIMIT_S:g} s")
    elif point == END:
        until(lambda: ended(client, run), point)
    else:
        number = ENTRIES.index(point) + 1
        until(lambda: len(client.get(f"/v1/runs/{run}/steps")["steps"]) >= number, point)


def victims_of(up: Up, client: Client, run: str, target: str) -> tuple[list[int], list[int]]:
    """Whom to kill, of whoever has the run or of the first runner; and who has to die of it."""
    worker, warden = up.workers[client.run(run).get("holder") or "runner-1"]
    return {
        "worker": ([worker], [worker]),
        "engine": ([up.engine], [up.engine]),
        "worker and engine": ([worker, up.engine], [worker, up.engine]),
        "warden": ([warden], [warden, worker]),
    }[target]


def kill(victims: Sequence[int], dying: Sequence[int]) -> None:
    """SIGKILL the first, and return when the second have ended."""
    handles = [os.pidfd_open(pid) for pid in dying]
    try:
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        for handle in handles:
            if not select.select([handle], [], [], LIMIT_S)[0]:
                raise TimeoutError(f"a killed process did not end in {LIMIT_S:g} s")
    finally:
        for handle in handles:
            os.close(handle)


def trials(folder: RunFolder, options: argparse.Namespace) -> Iterator[Trial]:
    """All of them, one after the other."""
    numbers = itertools.count()
    for payee, target, point, _ in itertools.product(
        options.payee, options.target, POINTS, range(options.k)
    ):
        yield trial(folder.sub(f"trial-{next(numbers)}"), payee, target, point)


def figures(found: Sequence[Trial]) -> list[Figure]:
    """Refunds beyond one, by payee and by what was killed."""
    made = []
    for payee, target in dict.fromkeys((one.payee, one.target) for one in found):
        these = [one for one in found if (one.payee, one.target) == (payee, target)]
        extra = sum(one.refunds - 1 for one in these)
        ok = sum(one.state == "completed" and one.right for one in these)
        where = ", ".join(dict.fromkeys(one.point for one in these if one.refunds != 1))
        times = sorted(one.recover_s for one in these)
        reference = f"{ok} of {len(these)} runs completed rightly"
        reference += f"; at: {where}" if where else ""
        reference += f"; to the end {times[len(times) // 2]:.2f} s, at most {times[-1]:.2f} s"
        known = payee == "keyed"
        out = {one.point for one in these if one.refunds != 1}
        holds = ok == len(these) and out <= (set() if known else {BEFORE, AFTER})
        what = f"payee {'honours keys' if known else 'knows no keys'}, {target} killed"
        wanted = "0" if known else "while one is out"
        made.append(Figure(what, float(extra), "refunds extra", wanted, reference, holds))
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when each run completed and no refund was made twice that could be prevented."""
    parser = argparse.ArgumentParser(prog="benchmarks/refund_kills.py", description=__doc__)
    parser.add_argument("--k", type=int, default=3, help="trials for each point")
    parser.add_argument("--payee", nargs="+", choices=PAYEES, default=PAYEES)
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument("--out", type=Path, help="evidence file to write")
    options = parser.parse_args(argv)
    if options.out is not None and (options.out.is_dir() or not options.out.parent.is_dir()):
        parser.error(f"--out {options.out}: name a file in a folder that exists")
    if options.k < 1:
        parser.error(f"--k {options.k}: at least 1")
    found = []
    with run_folder() as folder:
        for one in trials(folder, options):
            found.append(one)
            verdict = "" if one.right else " WRONG"
            print(
                f"{one.payee:8} {one.target:18} {one.point:16} {one.state:10} "
                f"{one.refunds} refunds, {one.requests} requests, {one.recover_s:.2f} s{verdict}",
                flush=True,
            )
    made = figures(found)
    print(table(made))
    if options.out is not None:
        settings = ["--k", str(options.k), "--out", os.path.relpath(options.out)]
        command = shlex.join(["python", "benchmarks/refund_kills.py", *settings])
        write(options.out, command, made, {"trials": [asdict(one) for one in found]})
    return 0 if all(figure.holds for figure in made) else 1


if __name__ == "__main__":
    sys.exit(main())
