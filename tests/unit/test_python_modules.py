"""Imports that would fail on volunteers' computers."""

from __future__ import annotations

import pytest

from cobblestone.domain.errors import JobError
from cobblestone.sdk.packing.dependencies import check_modules


@pytest.mark.parametrize(
    "program",
    [
        b"import numpy as np\n",
        b"import os, numpy\n",
        b"from numpy.linalg import solve\n",
        b"def f():\n    import numpy\n",
        b"try:\n    import json\nfinally:\n    import numpy\n",
    ],
)
def test_a_module_that_is_neither_part_of_python_nor_sent_along_is_named_with_its_line(program: bytes):
    with pytest.raises(JobError, match=r"period\.py, line \d: it imports numpy.*--installed numpy"):
        check_modules({"period.py": program})
    check_modules({"period.py": program}, installed=["numpy"])
    check_modules({"period.py": program, "numpy.py": b""})
    check_modules({"period.py": program, "numpy.cpython-311-x86_64-linux-gnu.so": b""})
    check_modules({"period.py": program, "vendored.zip": b""})


@pytest.mark.parametrize(
    "program",
    [
        b"import os, json, math, distutils\nimport cobblestone_runtime\n",
        b"try:\n    import numpy\nexcept ImportError:\n    numpy = None\n",
        b"from . import numpy\n",
        b"from __future__ import annotations\n",
        b"print 'import numpy'\nimport numpy\n",
        b"import numpy\n\0",
        b"(" * 100_000,
        b"",
    ],
)
def test_what_may_be_missing_or_cannot_be_read_is_let_through(program: bytes):
    check_modules({"period.py": program, "data.txt": b"import numpy"})
