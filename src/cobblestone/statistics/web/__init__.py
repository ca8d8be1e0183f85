"""The pages of the statistics site."""

from __future__ import annotations
