"""Rows that are locked before others, see `cobblestone.store.engine.database.Transaction`.

The order of a project's tables: workunits, hosts, app versions, apps, users, teams, batches, files.  Who locks a workunit may
change its results.
"""

from __future__ import annotations

from cobblestone.store.engine.database import RowsOf

WORKUNITS_OF_RESULTS = RowsOf("workunit", "id IN (SELECT workunit_id FROM result WHERE name IN (??))", rank=1)
HOSTS = RowsOf("host", rank=2)
