"""The statistics site's data: Parquet files by project, and one DuckDB file made from them for the pages."""

from __future__ import annotations
