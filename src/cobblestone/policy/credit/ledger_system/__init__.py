"""The ledger system of credit: own reports move credit only between own jobs, and refused jobs stay on the account.

`records` holds its state, `rules` the formulas as functions of plain numbers, `readings`, `pricing` and `learning` apply them,
and `engine` is the pure step (state, event) -> outcome.  It knows nothing of databases or of the other systems.
docs/credit-ledger.md states what it promises.
"""
