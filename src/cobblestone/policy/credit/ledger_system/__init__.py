"""The ledger system of credit: own reports move credit only between own jobs, and refused jobs stay on the account.

`records` holds its state, `rules` the formulas as functions of plain numbers, `engine` the pure step (state, event) -> outcome,
`checks` what becomes of checks and audits, and `words` the reasons for people.  It knows nothing of databases or of the
other systems.  docs/credit-ledger.md states what it promises.
"""
