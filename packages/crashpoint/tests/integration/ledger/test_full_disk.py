"""A disk that fills up: one clear line, exit 74, and every acknowledged attempt is in the file."""

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from crashpoint.ledger.chain import fault_in
from crashpoint.ledger.control import LedgerFault
from integration.ledger.rig import DEADLINE_S, Peer, attempt, in_file, running, seconds

# The interpreter ignores SIGXFSZ, so a write beyond the limit fails with EFBIG.
LIMITED = """
import resource, sys
from crashpoint.ledger.daemon import main
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
sys.exit(main())
"""


def fill(folder, why, **options):
    """Write until the daemon dies of it."""

    async def run():
        async with running(folder, **options) as ledger:
            trial = await ledger.open("t-1")
            acknowledged = []
            with Peer(ledger.invoke_socket) as peer:
                for n in range(100):
                    line = attempt(trial.token, id=f"i-{n}", action="x" * 20_000)
                    reply = await asyncio.to_thread(peer.ask, line)
                    if reply is None:
                        break
                    acknowledged.append(f"i-{n}")
            await seconds(DEADLINE_S, ledger.died.wait())
            assert ledger._process.returncode == 74
            with pytest.raises(LedgerFault) as fault:
                await trial.seal("note")
            (said,) = ledger._said
            assert said == str(fault.value)
            assert said.startswith("crashpoint ledger: cannot append to the ledger ")
            assert said.endswith(
                f"{why}; free space or choose another folder with TMPDIR, then run again"
            )
            records = in_file(ledger)
            assert [record.get("id") for record in records[1:]] == acknowledged
            assert 5 < len(acknowledged) < 100
            assert fault_in("t-1", trial.key, records, complete=False) is None

    asyncio.run(run())


def test_a_file_that_may_not_grow(tmp_path):
    fill(tmp_path, "File too large", command=[sys.executable, "-c", LIMITED])


@contextmanager
def small_disk(folder):
    """A real file system of half a megabyte."""
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_without_space(tmp_path):
    with small_disk(tmp_path) as disk:
        fill(disk, "No space left on device")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_is_full_from_the_start(tmp_path):
    with small_disk(tmp_path) as disk:
        (disk / "ballast").write_bytes(bytes(400 << 10))

        async def run():
            async with running(disk) as ledger:
                await ledger.open("t-1")

        with pytest.raises(LedgerFault, match="No space left on device"):
            asyncio.run(run())
