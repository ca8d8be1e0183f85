"""The statistics site's data: Parquet files by project, and one DuckDB file made from them for the pages.

It knows the folder and DuckDB; no page.
"""

from __future__ import annotations
