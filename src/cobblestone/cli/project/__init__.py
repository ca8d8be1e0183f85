"""Commands for those who run a project: its server, its keys, its accounts, its records.

It knows the options that all commands share; hosts and results are explained here.
"""
