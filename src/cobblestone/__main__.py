"""``python -m cobblestone``."""

from __future__ import annotations

from cobblestone.cli import main

if __name__ == "__main__":  # a worker process loads this file, too, under another name
    main()
