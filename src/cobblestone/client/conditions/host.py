"""Detection of the computer's hardware and system, and of changes while the client runs.

What changes while the client runs: users, power, heat, other programs' load, and the network connection.

Whatever the system does not tell is None, and then suspends nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from cobblestone.policy.client.host.preferences import Readings
from cobblestone.wire.scheduler.host import CoprocRequest, HostInfo, TimeStats

_UNIT = {"K": 1024.0, "M": 1024.0**2}
MAX_FEATURES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedHost:
    """What every project is told of this computer."""

    host: HostInfo
    coprocs: tuple[CoprocRequest, ...]
    platforms: tuple[str, ...]
    preferences: str  #: the ``<global_preferences>`` in force
    stored_preferences: str = ""  #: those that a project or account manager gave
    used_by_all: float = 0.0
    time_stats: TimeStats = TimeStats()
    sandboxed: bool = False
    several_clients: bool = False  #: there may be more than one client on this computer


def read_host_info(data_dir: Path, *, host_cpid: str = "", root: Path = Path("/")) -> HostInfo:
    """Describe this computer, without its benchmarks."""
    vendor, model, features = _processor((root / "proc/cpuinfo").read_text(errors="replace"))
    disk = shutil.disk_usage(data_dir)
    return HostInfo(
        timezone=time.localtime().tm_gmtoff,
        domain_name=socket.gethostname(),
        ip_addr=_address(),
        host_cpid=host_cpid,
        p_ncpus=usable_cpus(),
        p_vendor=vendor,
        p_model=model,
        p_features=features[:MAX_FEATURES],
        p_vm_extensions_disabled=False,
        m_nbytes=float(psutil.virtual_memory().total),
        m_cache=_cache(root),
        m_swap=float(psutil.swap_memory().total),
        d_total=float(disk.total),
        d_free=float(disk.free),
        os_name=_os_name(root),
        os_version=_os_version(root),
        product_name=_text(root / "sys/class/dmi/id/product_name"),
    )


def usable_cpus() -> int:
    """Return the CPUs that the system lets this process use: fewer than exist in a container or a CPU set."""
    return max(1, len(os.sched_getaffinity(0)))


def hardware_key(host: HostInfo, gpus: tuple[str, ...] = ()) -> str:
    """Return a text that changes with the processors or GPUs, so that benchmarks are due."""
    return "|".join((host.p_vendor, host.p_model, str(host.p_ncpus), *gpus))


def _processor(text: str) -> tuple[str, str, str]:
    """Return vendor, model and features; the model is followed by family, model and stepping as BOINC's client writes it."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, found = line.partition(":")
        if colon and name.strip() not in fields:
            fields[name.strip()] = found.strip()
    vendor = fields.get("vendor_id") or fields.get("CPU implementer") or platform.machine()
    model = fields.get("model name") or fields.get("Processor") or fields.get("cpu model") or "unknown"
    if "cpu family" in fields:
        numbers = (fields.get(each, "?") for each in ("cpu family", "model", "stepping"))
        model += " [Family {} Model {} Stepping {}]".format(*numbers)
    return vendor, model, fields.get("flags") or fields.get("Features") or ""


def _cache(root: Path) -> float:
    """Return the size of the largest cache of the first CPU, bytes; 0 if the system does not say."""
    largest = 0.0
    for file in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        if found := re.fullmatch(r"(\d{1,9})([KM]?)", _text(file)):
            largest = max(largest, float(found[1]) * _UNIT.get(found[2], 1.0))
    return largest


def _release(root: Path) -> dict[str, str]:
    lines = _text(root / "etc/os-release", 10_000).splitlines()
    pairs = (line.partition("=") for line in lines)
    return {name: found.strip('"') for name, _, found in pairs}


def _os_name(root: Path) -> str:
    distribution = _release(root).get("NAME", "").removesuffix(" GNU/Linux")
    return f"{platform.system()} {distribution}".strip()


def _os_version(root: Path) -> str:
    name = _release(root).get("PRETTY_NAME", "") or platform.version()
    library = platform.libc_ver()[1]
    return f"{name} [{platform.release()}{f'|libc {library}' if library else ''}]"


def _address() -> str:
    """Return the address from which this computer reaches others; nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737)
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _text(path: Path, limit: int = 300) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(limit).strip()
    except OSError:
        return ""


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
    """The display in the client's environment; opened for each query, since a dead display would end our process."""

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
        """Return the seconds since the last input; None without a display."""
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


#: A program that is to have the computer for itself counts for so long after its end: many start others.
EXCLUSIVE_HOLD_SECONDS = 15.0
BUS_SECONDS = 2.0
_MOBILE = ("gsm", "cdma", "bluetooth")
_MOBILE_INTERFACES = ("wwan", "ppp", "rmnet")


class HostWatch:
    """Watches the computer every few seconds; ``look`` blocks for some milliseconds, so call it in a thread."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = dict(environment)
        self._root = root
        self._clock = clock
        self._ticks = ticks
        self._x11 = X11Idle(environment)
        self._last_load: tuple[float, float] | None = None
        self._own = 0.0
        self._seen: dict[str, float] = {}

    def look(
        self, own_cpu_seconds: float, *, exclusive: Collection[str] = (), exclusive_gpu: Collection[str] = ()
    ) -> Readings:
        """Take all readings; ``own_cpu_seconds`` is the CPU time of the client and all its jobs so far, including ended ones."""
        names = _programs() if exclusive or exclusive_gpu else set[str]()
        metered, mobile = self._network()
        on_battery, percent, heat = self._battery()
        return Readings(
            on_battery=on_battery,
            battery_percent=percent,
            battery_celsius=heat,
            celsius=self._hottest(),
            idle_seconds=self._idle(),
            other_load=self._load(own_cpu_seconds),
            exclusive_app=self._running(exclusive, names),
            exclusive_gpu_app=self._running(exclusive_gpu, names),
            metered=metered,
            mobile=mobile,
            connected=self._connected(),
        )

    # -- power and heat

    def _battery(self) -> tuple[bool | None, float | None, float | None]:
        supplies = self._root / "sys/class/power_supply"
        mains: list[bool] = []
        percent: float | None = None
        heat: float | None = None
        discharging = False
        for supply in sorted(supplies.iterdir()) if supplies.is_dir() else ():
            kind = _text(supply / "type")
            if kind in ("Mains", "USB"):
                mains.append(_text(supply / "online") == "1")
            elif kind == "Battery" and _text(supply / "scope") != "Device":  # not that of a mouse
                percent = _number(supply / "capacity", 1.0) if percent is None else percent
                heat = _number(supply / "temp", 0.1) if heat is None else heat
                discharging |= _text(supply / "status") == "Discharging"
        if percent is None and not discharging:
            return (None if not mains else False), None, None
        return discharging or (bool(mains) and not any(mains)), percent, heat

    def _hottest(self) -> float | None:
        files = [*(self._root / "sys/class/hwmon").glob("hwmon*/temp*_input")]
        files += (self._root / "sys/class/thermal").glob("thermal_zone*/temp")
        found = [
            degrees for file in files if (degrees := _number(file, 0.001)) is not None and 0 < degrees < 150
        ]
        return max(found, default=None)

    # -- other programs

    def _load(self, own_cpu_seconds: float) -> float | None:
        """Return the load since the last reading."""
        self._own = own_cpu_seconds = max(self._own, own_cpu_seconds)  # what was used cannot become less
        times = psutil.cpu_times()
        busy = times.user + times.system + times.nice + times.irq + times.softirq - own_cpu_seconds
        now = self._ticks()
        before, self._last_load = self._last_load, (now, busy)
        if before is None or now <= before[0]:
            return None
        share = (busy - before[1]) / (now - before[0]) / (psutil.cpu_count() or 1)
        return min(100.0, max(0.0, 100.0 * share))

    def _running(self, wanted: Collection[str], names: set[str]) -> str:
        now = self._ticks()
        for name in wanted:
            if name.lower() in names:
                self._seen[name] = now
        return next(
            (
                name
                for name in wanted
                if now - self._seen.get(name, -EXCLUSIVE_HOLD_SECONDS) < EXCLUSIVE_HOLD_SECONDS
            ),
            "",
        )

    # -- users

    def _idle(self) -> float | None:
        """Return the seconds since the last input at a terminal, an X display, or a desktop session."""
        found = [self._terminal_idle(), self._x11.seconds(), self._desktop_idle()]
        known = [each for each in found if each is not None]
        return min(known, default=None)

    def _terminal_idle(self) -> float | None:
        latest = 0.0
        for pattern in ("pts/[0-9]*", "tty[0-9]*"):
            for device in (self._root / "dev").glob(pattern):
                with suppress(OSError):
                    found = device.stat()
                    # a console without a user belongs to root
                    if found.st_uid != 0 or pattern.startswith("pts"):
                        latest = max(latest, found.st_atime)
        return max(0.0, self._clock() - latest) if latest else None

    def _desktop_idle(self) -> float | None:
        if not (self._root / "run/systemd/seats").is_dir():
            return None
        values = self._bus("login1", "/org/freedesktop/login1", "Manager")
        if values.get("IdleHint") is True and isinstance(values.get("IdleSinceHint"), int):
            return max(0.0, self._clock() - float(str(values["IdleSinceHint"])) / 1e6)
        return 0.0 if values.get("IdleHint") is False and self._has_desktop() else None

    def _has_desktop(self) -> bool:
        """Return whether there is a graphical session; only these report whether they are idle."""
        sessions = self._root / "run/systemd/sessions"
        lines = [line for file in sessions.glob("[!.]*") for line in _text(file, 5000).splitlines()]
        return any(line in ("TYPE=x11", "TYPE=wayland") for line in lines)

    # -- network

    def _network(self) -> tuple[bool | None, bool | None]:
        """Return whether the connection is metered, and whether it is a mobile one."""
        interface = _default_interface(_text(self._root / "proc/net/route", 20_000))
        mobile = interface.startswith(_MOBILE_INTERFACES) if interface else None
        if not (self._root / "run/NetworkManager").is_dir():
            return None, mobile
        values = self._bus("NetworkManager", "/org/freedesktop/NetworkManager", "")
        metered = {1: True, 2: False, 3: True, 4: False}.get(_whole(values.get("Metered")))
        kind = values.get("PrimaryConnectionType")
        return metered, kind in _MOBILE if isinstance(kind, str) and kind else mobile

    def _connected(self) -> bool | None:
        """Return whether there is a default route; None if the system has no routing tables."""
        routes, routes_6 = (_text(self._root / "proc/net" / name, 20_000) for name in ("route", "ipv6_route"))
        if not (routes or routes_6):
            return None
        return bool(_default_interface(routes)) or _has_default_6(routes_6)

    def _bus(self, service: str, path: str, interface: str) -> dict[str, object]:
        """Return all properties of an object on the system bus."""
        program = shutil.which("busctl", path=self._environment.get("PATH", "/usr/bin:/bin"))
        if not program:
            return {}
        name = f"org.freedesktop.{service}{f'.{interface}' if interface else ''}"
        words = [
            "--json=short",
            "call",
            f"org.freedesktop.{service}",
            path,
            "org.freedesktop.DBus.Properties",
            "GetAll",
            "s",
            name,
        ]
        try:
            answer = subprocess.run(
                [program, *words], capture_output=True, timeout=BUS_SECONDS, check=True, env=self._environment
            )
        except (OSError, subprocess.SubprocessError):
            return {}
        return read_bus_properties(answer.stdout)


def read_bus_properties(answer: bytes) -> dict[str, object]:
    """Return the values in the output of ``busctl --json=short call … GetAll``; empty for anything else."""
    try:
        (values,) = json.loads(answer)["data"]
        return {str(name): each["data"] for name, each in values.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _programs() -> set[str]:
    """Return the names of all running programs, in lower case."""
    found: set[str] = set()
    for process in psutil.process_iter(["name"]):
        name = str(process.info["name"] or "").lower()
        found |= {name, f"{name}.exe"}
    return found


def _default_interface(routes: str) -> str:
    for line in routes.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000":
            return fields[0]
    return ""


def _has_default_6(routes: str) -> bool:
    rows = (line.split() for line in routes.splitlines())
    return any(len(row) > 9 and set(row[0]) == {"0"} and row[1] == "00" and row[9] != "lo" for row in rows)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else -1


def _number(path: Path, unit: float) -> float | None:
    try:
        return int(_text(path)) * unit
    except ValueError:
        return None
