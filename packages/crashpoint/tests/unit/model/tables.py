"""The predictions as literals, worked out by hand before any code ran.

`KILL` is the requirement, word for word; `FREEZE` follows from what a thawed process does:
everything that lay ahead of it. So it always executes the effect itself, and the recovery does
too unless it read a completion, which is at b2 or, where persist comes first, from b1 on.
"""

E, DUP, DIV, LOST = "EXACTLY_ONCE", "DUPLICATED", "DIVERGED", "LOST"

KILL = {
    "r_null": (E, DUP, DUP),
    "r_dup": (E, DUP, E),
    "r_lost": (E, LOST, E),
    "r_idem": (E, E, E),
    "r_diverge": (E, DIV, E),
    "r_twophase": (E, E, E),
    "r_lg_naive": (E, DUP, E),
    "r_lg_idem": (E, E, E),
    "r_lg_nondet": (E, DIV, E),
    "r_lg_twophase": (E, E, E),
    "r_tmp_naive": (E, DUP, E),
    "r_tmp_idem": (E, E, E),
    "r_tmp_nondet": (E, DIV, E),
    "r_tmp_twophase": (E, E, E),
    "r_dbos_naive": (E, DUP, E),
    "r_dbos_idem": (E, E, E),
    "r_dbos_nondet": (E, DIV, E),
    "r_dbos_twophase": (E, E, E),
    "r_restate_naive": (E, DUP, E),
    "r_restate_idem": (E, E, E),
    "r_restate_nondet": (E, DIV, E),
    "r_restate_twophase": (E, E, E),
    "r_vwf_naive": (E, DUP, E),
    "r_vwf_idem": (E, E, E),
    "r_vwf_nondet": (E, DIV, E),
    "r_vwf_twophase": (E, E, E),
}
"""Row name -> outcome at b0, b1, b2 under kill."""

FREEZE = {
    # Nothing is ever recorded, so both always execute, and no key tells them apart.
    "r_null": (DUP, DUP, DUP),
    # At b2 the recovery reads the completion and skips; the thawed process is already past it.
    "r_dup": (DUP, DUP, E),
    # From b1 on the recovery skips, and the thawed process does the effect a kill would lose.
    "r_lost": (DUP, E, E),
    # Both execute at b0 and b1, under one key.
    "r_idem": (E, E, E),
    # Both execute at b0 and b1, each with its own draw and so its own key.
    "r_diverge": (DIV, DIV, E),
    # Both execute at b0 and b1 with different draws, under the one identity made before b0.
    "r_twophase": (E, E, E),
}
"""Control's name -> outcome at b0, b1, b2 under freeze."""

FREEZE_ENDED = {
    # The first process does what it did before the barrier and nothing after it, as if it had been
    # killed there: whoever saw it stand still ended it before the second began.
    "r_null": (E, DUP, DUP),
    "r_dup": (E, DUP, E),
    "r_lost": (E, LOST, E),
    "r_idem": (E, E, E),
    "r_diverge": (E, DIV, E),
    "r_twophase": (E, E, E),
}
"""The same for what declares like a control, but is taken over after its death only."""

CONTROLS = {
    "r_null": ("none", "after-effect", "naive", "reproducible"),
    "r_dup": ("journaled", "after-effect", "naive", "reproducible"),
    "r_lost": ("journaled", "before-effect", "naive", "reproducible"),
    "r_idem": ("journaled", "after-effect", "idempotent", "reproducible"),
    "r_diverge": ("journaled", "after-effect", "idempotent", "drawn"),
    "r_twophase": ("journaled", "after-effect", "twophase", "drawn"),
}
"""Control's name -> the words it declares, in the order of the fields."""

LIKE_CONTROL = {
    "naive": "r_dup",
    "idem": "r_idem",
    "nondet": "r_diverge",
    "twophase": "r_twophase",
}
"""Last word of an engine row's name -> the control it declares the same as."""
