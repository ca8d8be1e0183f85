"""Seconds since the last input on an X display, by the extension for screen savers, where its library is present."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping


class _Info(ctypes.Structure):
    _fields_ = [
        ("window", ctypes.c_ulong),
        ("state", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("til_or_since", ctypes.c_ulong),
        ("idle", ctypes.c_ulong),
        ("event_mask", ctypes.c_ulong),
    ]


class X11Idle:
    """One display, that of the client's environment; opened anew for each look, since a dead display would end our process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._display = environment.get("DISPLAY", "")
        self._libraries: tuple[ctypes.CDLL, ctypes.CDLL] | None = None
        if self._display:
            try:
                self._libraries = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXss.so.1")
            except OSError:
                return
            x11, saver = self._libraries
            x11.XOpenDisplay.restype = ctypes.c_void_p
            x11.XDefaultRootWindow.restype = ctypes.c_ulong
            saver.XScreenSaverAllocInfo.restype = ctypes.POINTER(_Info)

    def seconds(self) -> float | None:
        """Seconds since the last input; None without a display."""
        if self._libraries is None:
            return None
        x11, saver = self._libraries
        display = x11.XOpenDisplay(self._display.encode())
        if not display:
            return None
        opened = ctypes.c_void_p(display)
        try:
            info = saver.XScreenSaverAllocInfo()
            root = ctypes.c_ulong(x11.XDefaultRootWindow(opened))
            answered = saver.XScreenSaverQueryInfo(opened, root, info)
            idle = info.contents.idle / 1000.0 if answered else None
            x11.XFree(info)
            return idle
        finally:
            x11.XCloseDisplay(opened)
