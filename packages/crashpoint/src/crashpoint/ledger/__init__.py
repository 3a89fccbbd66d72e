"""The out-of-process ledger: what reached the outside world, where the subject cannot touch it.

`chain` says what a valid record is, `book` keeps records on disk, `desk` answers requests, `daemon`
is the process that owns them; `control` is the controller's side of it, `tally` what it still knows
when the daemon is dead, and `oracle` counts a sealed chain into an outcome.
"""
