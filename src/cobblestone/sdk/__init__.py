"""Submit jobs to a project and collect their results, over HTTP.  It meets the server over the network only.

Import from the modules, or from :mod:`cobblestone`: a command loads no more than it uses.
"""

from __future__ import annotations

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules  # None: not to be imported
_modules.setdefault("httpx._main", None)  # httpx's own command line would load click, Rich and Pygments
