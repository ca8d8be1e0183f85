"""Commands for operators of a project: its server, keys, accounts and records.

It knows the options that all commands share; hosts and results are explained here.
"""
