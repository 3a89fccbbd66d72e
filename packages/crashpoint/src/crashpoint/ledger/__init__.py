"""The out-of-process ledger: what reached the outside world, where the subject cannot touch it.

`chain` says what a valid record is, `book` keeps records on disk, `daemon` is the process that owns
them, `control` is the controller's side of it, and `oracle` counts a sealed chain into an outcome.
"""
