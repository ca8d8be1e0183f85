"""What the statistics site keeps: Parquet files by project, and one DuckDB file made from them that pages read."""

from __future__ import annotations
