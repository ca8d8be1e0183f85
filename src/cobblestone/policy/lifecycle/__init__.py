"""The life of a workunit: states as tables, transition rules, deadlines, deletion, purge.

It knows domain only; the store makes its SQL from its tables.
"""
