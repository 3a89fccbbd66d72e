"""Close a document that no matrix run has made: a ledger of its own, for the seal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from crashpoint.ledger.control import Ledger
from crashpoint.pipeline.evidence import close_document
from crashpoint.procs.run_folder import run_folder

__all__ = ["closed"]


def closed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its seals. Raises LedgerFault and FolderFault."""
    return asyncio.run(_close(body))


async def _close(body: Mapping[str, Any]) -> dict[str, Any]:
    with run_folder() as folder:
        ledger = await Ledger.start(folder.sub("ledger"), folder.sub("sockets"), adopt=folder.adopt)
        try:
            return await close_document(body, ledger)
        finally:
            await ledger.close()
