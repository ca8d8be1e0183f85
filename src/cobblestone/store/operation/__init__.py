"""Queries and actions of operators and pages: figures, checks, audit log, processes, lists, ranks.

It knows all other rooms of the verbs, and no room knows it.
"""
