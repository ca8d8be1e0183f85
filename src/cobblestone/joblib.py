"""``import cobblestone.joblib`` makes ``joblib.parallel_config("cobblestone", app=…, project=…)`` possible (extra ``joblib``).

>>> import cobblestone.joblib
>>> from joblib import Parallel, delayed, parallel_config
>>> with parallel_config("cobblestone", app="functions", project="sky"):
...     Parallel()(delayed(pow)(number, 2) for number in range(3))
[0, 1, 4]
"""

from __future__ import annotations

from joblib import register_parallel_backend  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from cobblestone.sdk.frameworks.joblib_backend import CobblestoneBackend, create_app

__all__ = ["create_app"]

register_parallel_backend("cobblestone", CobblestoneBackend)
