"""A package that announces a kind of comparison, as an installer would leave it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cobblestone.server.core.comparisons import comparison_kinds


@contextmanager
def installed_kind(site: Path, module: str, class_name: str, code: str) -> Iterator[None]:
    """Put a module into ``site``, with metadata that announce its class under the module's name."""
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{module}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[cobblestone.comparisons]\n{module} = {module}:{class_name}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", str(site))  # for the worker processes
        comparison_kinds.cache_clear()
        yield
    comparison_kinds.cache_clear()
    sys.modules.pop(module, None)
