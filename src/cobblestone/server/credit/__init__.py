"""Credit granted by the server: claims and grants of the validator, averages, scales, and the audit of the ledger.

It knows the core, the credit policies and the ledger; no daemon.
"""
