"""Volunteer computing in one ``pip install``.

``cobblestone.connect()`` gives a project to submit jobs to; see :mod:`cobblestone.sdk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cobblestone.sdk import Job, connect

__version__ = "0.1.0"
__all__ = ["Job", "__version__", "connect"]


def __getattr__(name: str) -> Any:  # modules look up attributes of any type
    # The SDK brings an HTTP client along; whoever only wants the version does not wait for it.
    if name in ("Job", "connect"):
        from cobblestone import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
