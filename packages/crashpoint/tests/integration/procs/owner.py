"""A harness in small: makes a run folder, starts what it adopts, rings, and ends or is killed."""

import subprocess
import sys

from acceptance.broken_program import ring
from crashpoint.procs import janitor
from crashpoint.procs.run_folder import run_folder

# Both ignore what a terminal could send; one ends by itself when its input is closed.
STUBBORN = "import signal; signal.signal(15, 1); signal.signal(2, 1); print(flush=True); {}"


def start(then, **pipes):
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN.format(then)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **pipes,
    )
    assert process.stdout.readline() == b"\n"
    return process


def main():
    with run_folder() as folder:
        (folder.sub("sockets") / "a.sock").touch()
        # One that does not end by itself is waited for before it is killed, which takes its time.
        then = "signal.pause()" if "--stubborn" in sys.argv else "input()"
        adopted = start(then, stdin=subprocess.PIPE)
        folder.adopt(adopted.pid)
        stranger = start("signal.pause()")
        # Its process id as one that was used again: another process than the one registered.
        start_of, janitor.start_of = janitor.start_of, lambda pid: 1
        folder.adopt(stranger.pid)
        janitor.start_of = start_of
        graceful = start("input()", stdin=subprocess.PIPE)
        folder.adopt(graceful.pid)
        try:
            ring(f"{folder.path} {adopted.pid} {stranger.pid} {graceful.pid}")
            if "--then-end" not in sys.argv:
                sys.stdin.read()
        finally:
            for process in (adopted, graceful):
                process.stdin.close()


if __name__ == "__main__":
    main()
