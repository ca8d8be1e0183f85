"""The credit ledger, what was learned from it, its history and its scales.

It knows ``averages`` and ``engine``, no other room of the verbs.
"""
