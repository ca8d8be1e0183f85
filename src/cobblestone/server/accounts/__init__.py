"""Volunteers' accounts: creation, log-in, second factor, deletion, and the account RPCs of clients and account managers."""
