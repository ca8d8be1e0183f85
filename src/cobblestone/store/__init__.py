"""Databases and files.  The only place with SQL.

Verbs are plain functions, grouped by noun (``people``, ``hosts``, ``work`` …), whose first argument is a
:class:`~cobblestone.store.database.Database`.  Inside a write they receive a
:class:`~cobblestone.store.database.Transaction`.
"""
