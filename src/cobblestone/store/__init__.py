"""Databases and files.  The only place with SQL.

Rooms: ``engine`` (two databases behind one protocol) and ``maintenance`` (upgrades, copies) serve any schema; ``schema`` has
a project's tables and migrations; ``work``, ``people``, ``credit``, ``catalog`` and ``operation`` have the verbs.  Verbs are
plain functions, whose first argument is a :class:`~cobblestone.store.engine.database.Database`.  Inside a write they receive
a :class:`~cobblestone.store.engine.database.Transaction`.
"""
