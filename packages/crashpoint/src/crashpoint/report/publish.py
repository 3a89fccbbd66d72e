"""Writes what people look at beside the evidence: two pictures and a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crashpoint.pipeline.evidence import EvidenceFault, write_atomically
from crashpoint.report import html, plots

__all__ = ["publish"]

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def publish(document: Mapping[str, Any], out: Path) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.html into the folder `out` and return their paths.

    Each replaces an older one whole. Raises EvidenceFault for a name that is none, OSError where
    a file cannot be written, KeyError for a document that lacks a member.
    """
    name = document["name"]
    if not NAME.fullmatch(name):
        raise EvidenceFault(f"{name!r} is no name: letters, digits, '_', '-' and '.', no path")
    files = {
        "png": plots.png(document),
        "svg": plots.svg(document),
        "html": html.page(document).encode(),
    }
    paths = []
    for ending, data in files.items():
        path = out / f"{name}.{ending}"
        write_atomically(path, data)
        paths.append(path)
    return paths
