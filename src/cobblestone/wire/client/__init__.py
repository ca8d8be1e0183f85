"""A client's exchanges: jobs, managers, account managers, its volunteer's files, its state file.

Knows the other rooms of `wire`.
"""
