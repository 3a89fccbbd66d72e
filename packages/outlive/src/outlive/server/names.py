"""Which names and ids can be kept."""

from __future__ import annotations

from typing import Final

from outlive.server.book import Refusal

__all__ = ["NAME_MAX", "checked"]

NAME_MAX: Final = 200


def checked(what: str, name: str) -> str:
    """A name that can be kept; raises Refusal."""
    if not name or len(name) > NAME_MAX or any(ord(char) < 32 for char in name):
        raise Refusal(
            f"{what} {name[:40]!r} is no name: use 1 to {NAME_MAX} characters without control "
            "characters",
            400,
        )
    return name
