"""A support workflow: look at a ticket, let it cool off, refund, tell the customer.

    outlive up examples/refund.py
    outlive events send ticket.created '{"id": "T-1", "cents": 4200}'
    outlive runs list

REFUNDS names the payments service, `http://127.0.0.1:PORT`. Without one, refunds are lines in
refunds.jsonl, which tells keys apart as a good payments service does.
"""

from __future__ import annotations

import fcntl
import json
import os
import urllib.request
from pathlib import Path
from typing import Any

from outlive import App, Context, current

app = App("support")

PAYMENTS = os.environ.get("REFUNDS", "")
COOL_OFF = os.environ.get("COOL_OFF", "20s")


def triage_ticket(ticket: dict[str, Any]) -> dict[str, Any]:
    """What is to be done about a ticket: here, all of it is refunded."""
    return {"ticket": ticket["id"], "cents": ticket["cents"]}


def issue_refund(triage: dict[str, Any]) -> dict[str, Any]:
    """Refund once for this step: the key is the same in every attempt at it."""
    key = current().key
    return by_http(key, triage) if PAYMENTS else by_file(key, triage)


def by_http(key: str, triage: dict[str, Any]) -> dict[str, Any]:
    """Ask a payments service that honours `Idempotency-Key`."""
    request = urllib.request.Request(  # noqa: S310  the address is the operator's
        f"{PAYMENTS}/refunds",
        json.dumps(triage).encode(),
        {"Content-Type": "application/json", "Idempotency-Key": key},
    )
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310  as above
        answer: dict[str, Any] = json.load(response)
    return answer


def by_file(key: str, triage: dict[str, Any]) -> dict[str, Any]:
    """Be the payments service: a line a refund, none for a key that has one."""
    with Path("refunds.jsonl").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        for refund in map(json.loads, file):
            if refund["key"] == key:
                return {"id": refund["id"]}
        refund = {"id": f"R-{key[:8]}", "key": key, **triage}
        file.write(json.dumps(refund) + "\n")
        return {"id": refund["id"]}


@app.workflow(on="ticket.created")
async def refund_flow(ctx: Context, ticket: dict[str, Any]) -> dict[str, Any]:
    """Triage, wait without a worker, refund."""
    triage = await ctx.step.run("triage", triage_ticket, ticket)
    await ctx.step.sleep("cool-off", COOL_OFF)
    refund = await ctx.step.run("refund", issue_refund, triage)
    return {"refund": refund["id"]}
