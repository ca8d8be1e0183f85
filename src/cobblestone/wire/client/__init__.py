"""What a client exchanges with others: jobs, managers, account managers, its volunteer's files, its state file.

Knows the other rooms of `wire`.
"""
