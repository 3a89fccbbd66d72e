"""Support agent: looks up what customers paid, refunds what is owed, tells them on their tickets.

One function, a checkpoint in a FileStore. The model's reply is saved before any tool runs; each
tool call has a key made from the run and the call.
"""

from crashpoint.testing import FileStore, ScriptedModel, call_key

RUN = "support-1129"
ORDERS = {"order-17": 4_900, "order-23": 12_000}
MODEL = ScriptedModel(
    [
        {
            "say": "Two customers were charged twice. I look at what they paid.",
            "calls": [
                {"id": "look-17", "tool": "paid", "order": "order-17"},
                {"id": "look-23", "tool": "paid", "order": "order-23"},
            ],
        },
        {
            "say": "Both are owed a payment.",
            "calls": [
                {"id": "back-17", "tool": "refund", "order": "order-17"},
                {"id": "back-23", "tool": "refund", "order": "order-23"},
            ],
        },
        {
            "say": "Now I tell them.",
            "calls": [
                {"id": "tell-17", "tool": "tell", "order": "order-17", "text": "refunded"},
                {"id": "tell-23", "tool": "tell", "order": "order-23", "text": "refunded"},
            ],
        },
        {"say": "Both customers have their money back.", "calls": []},
    ]
)


def start(tracker, payments):
    """The shop took the money and opened tickets; then the agent goes to work.

    After a crash the shop's part is done again under the same keys, which changes nothing.
    """
    tickets = {}
    for order, cents in ORDERS.items():
        payments.charge(order, cents, key=call_key("shop", order))
        title = f"{order} was charged twice"
        tickets[order] = tracker.file(title, key=call_key("desk", order))
    return work(tickets, tracker, payments)


def work(tickets, tracker, payments):
    store = FileStore("support.json")
    state = store.load() or {"turns": []}
    turns = state["turns"]
    while True:
        if not turns or len(turns[-1]["results"]) == len(turns[-1]["reply"]["calls"]):
            if turns and not turns[-1]["reply"]["calls"]:
                return {"said": turns[-1]["reply"]["say"], "turns": len(turns)}
            turns.append({"reply": MODEL.reply(len(turns)), "results": {}})
            store.save(state)
        turn = turns[-1]
        for call in turn["reply"]["calls"]:
            if call["id"] in turn["results"]:
                continue
            if call["tool"] == "paid":
                turn["results"][call["id"]] = payments.look_up(call["order"])[0]
                store.save(state)
                continue
            act(call, paid(turns, call["order"]), tickets, tracker, payments)
            turn["results"][call["id"]] = {"done": call["tool"]}
            store.save(state)


def paid(turns, order):
    """What an earlier look-up found: {charge, cents, currency, refunded}."""
    for turn in turns:
        for call in turn["reply"]["calls"]:
            if call["tool"] == "paid" and call["order"] == order:
                return turn["results"][call["id"]]
    raise LookupError(f"nobody has looked up {order}")


def act(call, charge, tickets, tracker, payments):
    key = call_key(RUN, call["id"])
    if call["tool"] == "refund":
        payments.refund(charge["charge"], charge["cents"], key=key)
    else:
        tracker.comment(tickets[call["order"]], f"{call['order']}: {call['text']}", key=key)
