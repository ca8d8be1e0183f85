"""Statistics over many projects: their exports collected daily, joined by person, kept as history, shown as pages.

``store`` has Parquet and DuckDB, ``web`` the pages; collecting, running and backups stand above them.
"""

from __future__ import annotations
