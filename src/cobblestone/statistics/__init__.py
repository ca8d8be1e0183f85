"""Statistics over many projects: their exports collected every day, joined by person, kept as history, shown as pages."""

from __future__ import annotations
