"""How kernels are compiled.  Needs the extra ``lab``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])  # Any: any signature


def compiled(function: Function) -> Function:
    """Compile a kernel once per machine.  What it calls must stand in its own file: the cache looks at no other."""
    numba: Any = import_module("numba")  # Any: Numba has no types
    kernel: Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return kernel


def inlined(function: Function) -> Function:
    """Compile a function into the kernels that call it."""
    numba: Any = import_module("numba")  # Any: Numba has no types
    part: Function = numba.njit(forceinline=True, error_model="numpy")(function)
    return part
