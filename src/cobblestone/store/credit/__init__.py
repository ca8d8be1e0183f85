"""The credit ledger, what was learned from it, its history and its scales."""
