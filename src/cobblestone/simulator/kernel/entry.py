"""The one compiled function of this package that is called from outside."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cobblestone.simulator import kernel
from cobblestone.simulator.code_version import digest
from cobblestone.simulator.kernel.client import go_through
from cobblestone.simulator.kernel.world import World, compiled, numba

_go_through = compiled(go_through)  # not in the closure below, whose values name the compiled code


@lru_cache(maxsize=1)
def load_kernel() -> Any:  # Any: Numba has no types
    """Return the compiled :func:`go_through`.

    It is compiled once per machine and version of the code: a change in another file, or of a constant of the policies, is
    nothing that Numba sees by itself.
    """
    version = f"{digest([Path(__file__).parent])} {_constants()}"

    def run(world: World) -> None:
        _ = version
        _go_through(world)

    return numba.njit(error_model="numpy", cache=True)(run)


def _constants() -> str:
    modules = [vars(module) for module in vars(kernel).values() if isinstance(module, ModuleType)]
    return repr(sorted({(name, repr(each[name])) for each in modules for name in each if name.isupper()}))
