"""Volunteers' accounts: creation, log-in, second factor, deletion, and the account RPCs of clients and account managers.

It knows the core and the store's people; no page and no scheduler.
"""
