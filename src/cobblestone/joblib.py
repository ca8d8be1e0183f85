"""``import cobblestone.joblib`` makes ``joblib.parallel_config("cobblestone", app=…, project=…)`` possible (extra ``joblib``).

>>> import cobblestone.joblib
>>> from joblib import Parallel, delayed, parallel_config
>>> with parallel_config("cobblestone", app="functions", project="sky"):
...     Parallel()(delayed(pow)(number, 2) for number in range(3))
[0, 1, 4]
"""

from __future__ import annotations

from cobblestone.sdk.frameworks.joblib_backend import create_app, register

__all__ = ["create_app"]

register()
