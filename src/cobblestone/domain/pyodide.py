"""Pyodide, which is Python with compiled packages for browsers: the version that this package knows.

Its files are not part of this package.  Their scripts run on pages of the project, so they must have these hashes.
"""

from __future__ import annotations

VERSION = "314.0.7"
PYTHON_VERSION = "3.14"
#: Platform of compiled wheels that fit (PEP 783).
WHEEL_TAG = "pyemscripten_2026_0_wasm32"
#: By the names of the files of the npm package ``pyodide``.
SHA256 = {
    "pyodide.mjs": "6f1d60f7bf529beb300f0f47983c921d3982363640ba20af0e38efdddbc66109",
    "pyodide.asm.mjs": "f7cdc8ece80678ceb712f8e65ebe6d3a83203a180c399865f49612a051693635",
    "pyodide.asm.wasm": "cc36e3cab04fdfc9a63ff13eb52eae2b911bf46c025cc7b281f394bd3de1d5e6",
    "pyodide-lock.json": "5dc2fc119108bc148c7457dc86e7675b5c87e1cafd420b9c34c1eaef7b36c010",
    "python_stdlib.zip": "fa1957e5777068fc4f7437f96d860ae2fbe9c19732ba06c84e004ec16dd7dd7a",
}
#: Main program of a version for browsers that Pyodide runs: the packages of the program.
PACKAGES_NAME = f"pyodide_{VERSION}.zip"


def version_of(main_program: str) -> str:
    """Return the version of Pyodide that runs a main program; empty: it is WebAssembly itself.

    >>> version_of("pyodide_314.0.7.zip"), version_of("module_for_browsers.wasm")
    ('314.0.7', '')
    """
    if not main_program.startswith("pyodide_"):
        return ""
    return main_program.removeprefix("pyodide_").removesuffix(".zip")
