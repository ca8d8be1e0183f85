"""``python -m cobblestone``."""

from __future__ import annotations

from cobblestone.cli import main

main()
