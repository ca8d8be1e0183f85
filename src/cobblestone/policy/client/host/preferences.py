"""May the computer compute now, how much, why, and until when.

May the computer compute now, how much, why, and until when.

The rules and their order are those of the family's client (``client/cs_prefs.cpp``, ``client/client_state.cpp``: facts).  Ours
are the hold and hysteresis of the limit on other programs' load, the temperature of the computer, and metered connections.
Everything that was measured comes in with the `Situation`; the answer carries its reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum

from cobblestone.domain.computing import ClientConfig, ComputingPreferences, Hours, Mode
from cobblestone.domain.reasons import Reason, Value, reason
from cobblestone.domain.values import value
from cobblestone.policy.client.core.values import Permission as CorePermission

DAY_HOURS = 24.0
WEEK_DAYS = 7


def day_window(general: Hours, days: Mapping[int, Hours], weekday: int) -> Hours:
    """Return the hours of one day."""
    return days.get(weekday % WEEK_DAYS, general)


def is_within(hours: Hours, hour: float) -> bool:
    """Return whether a time of day is in them."""
    start, end = hours
    if start == end:
        return True
    return start <= hour < end if start < end else hour >= start or hour < end


def next_change(general: Hours, days: Mapping[int, Hours], weekday: int, hour: float) -> float | None:
    """In how many hours the answer changes; None: never."""
    now = is_within(day_window(general, days, weekday), hour)
    for day in range(WEEK_DAYS + 2):
        window = day_window(general, days, weekday + day)
        for at in sorted({0.0, *(each % DAY_HOURS for each in window)}):
            ahead = day * DAY_HOURS + at - hour
            if ahead > 0 and is_within(window, at) != now:
                return ahead
    return None


def clock_time(hour: float) -> str:
    """Return a time of day as people write it."""
    minutes = round(hour * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


#: Computing stays off for at least so long after other programs were busy.
LOAD_HOLD_SECONDS = 20.0
#: It goes on when their load is below this part of the limit, so that it does not flicker around it.
LOAD_RELEASE = 0.8
#: It goes on when the computer is so many degrees cooler than the limit.
TEMPERATURE_RELEASE = 5.0
MIN_THROTTLE = 10.0
GIGABYTE = 2.0**30  #: as the family counts


class SuspendReason(IntEnum):
    """Why computing is suspended, with BOINC's numbers; 0: it is not."""

    NONE = 0
    BATTERIES = 1
    USER_ACTIVE = 2
    USER_REQUEST = 4
    TIME_OF_DAY = 8
    BENCHMARKS = 16
    CPU_THROTTLE = 64
    NO_RECENT_INPUT = 128
    INITIAL_DELAY = 256
    EXCLUSIVE_APP = 512
    CPU_USAGE = 1024
    NETWORK_QUOTA = 2048
    OS = 4096
    WIFI = 4097
    BATTERY_CHARGE = 4098
    BATTERY_HEAT = 4099


@value(kw_only=True)
class Readings:
    """One set of readings of the computer; what could not be measured is None and suspends nothing."""

    on_battery: bool | None = None
    battery_percent: float | None = None
    battery_celsius: float | None = None
    celsius: float | None = None  #: of the hottest sensor
    idle_seconds: float | None = None  #: since the last input
    other_load: float | None = None  #: per cent of all CPUs used by programs that are not ours
    exclusive_app: str = ""  #: one that runs
    exclusive_gpu_app: str = ""
    metered: bool | None = None
    mobile: bool | None = None
    connected: bool | None = None  #: there is a way to other computers


@value(kw_only=True)
class Situation(Readings):
    """The computer at this moment."""

    now: float  #: Unix seconds
    weekday: int = 0  #: local; 0 = Sunday
    hour: float = 0.0  #: local, 0 to 24
    ncpus: int = 1
    ram_bytes: float = 0.0
    swap_bytes: float = 0.0
    run_mode: Mode = Mode.AUTO
    gpu_mode: Mode = Mode.AUTO
    network_mode: Mode = Mode.AUTO
    run_mode_until: float | None = None  #: when a temporary mode ends
    gpu_mode_until: float | None = None
    network_mode_until: float | None = None
    network_open_until: float = 0.0  #: someone asked for a transfer
    seconds_since_start: float = math.inf
    benchmarks_running: bool = False
    was_hot: bool = False  #: computing is paused for heat
    others_busy: bool = False  #: their load is over the limit, held (`update_load`)
    transferred_bytes: float = 0.0  #: in the current period


@value(kw_only=True)
class RunPermission:
    """Whether an activity is allowed."""

    code: SuspendReason = SuspendReason.NONE
    reasons: tuple[Reason, ...] = ()
    until: float | None = None  #: when the clock alone changes the answer

    @property
    def allowed(self) -> bool:
        """Return whether it may."""
        return self.code is SuspendReason.NONE


@value(kw_only=True)
class Allowance:
    """All that preferences and situation allow."""

    cpu: RunPermission
    gpu: RunPermission
    network: RunPermission
    in_use: bool
    ncpus: int
    throttle_percent: float
    ram_bytes: float
    swap_bytes: float
    leave_in_memory: bool
    hot: bool  #: to be given back as ``was_hot``
    reasons: tuple[Reason, ...]  #: for the amounts


@value(kw_only=True)
class LoadGate:
    """Whether other programs are busy, with hysteresis."""

    busy: bool = False
    since: float = -math.inf  #: when they were last seen over the limit


def update_load(gate: LoadGate, *, percent: float | None, limit: float, now: float) -> LoadGate:
    """Take a new measurement of other programs' load; ``limit`` 0 means that it does not matter."""
    if limit <= 0 or percent is None:
        return LoadGate()
    if percent > limit:
        return LoadGate(busy=True, since=now)
    held = now - gate.since < LOAD_HOLD_SECONDS
    return LoadGate(busy=gate.busy and (held or percent > LOAD_RELEASE * limit), since=gate.since)


def load_limit(preferences: ComputingPreferences, *, in_use: bool) -> float:
    """Return the limit on other programs' load that holds now; per cent, 0: none."""
    return preferences.suspend_cpu_usage if in_use else preferences.niu_suspend_cpu_usage


def is_in_use(preferences: ComputingPreferences, situation: Situation) -> bool:
    """Return whether the computer is in use; unknown counts as no."""
    return situation.idle_seconds is not None and situation.idle_seconds < 60 * preferences.idle_time_to_run


def decide_allowance(
    preferences: ComputingPreferences, config: ClientConfig, situation: Situation
) -> Allowance:
    """Decide what may run now, and how much."""
    in_use = is_in_use(preferences, situation)
    hot = _is_hot(preferences, situation)
    cpu = _cpu(preferences, config, situation, in_use, hot)
    ncpus, cpus_reason = _ncpus(preferences, config, situation, in_use)
    throttle, throttle_reason = _throttle(preferences, situation, in_use)
    ram_percent = preferences.ram_max_used_busy_pct if in_use else preferences.ram_max_used_idle_pct
    ram = situation.ram_bytes * _part(ram_percent)
    reasons = [
        cpus_reason,
        *throttle_reason,
        reason(
            "ram",
            "Jobs may use {gigabytes} GB of memory: {percent} % while the computer is {use}.",
            gigabytes=round(ram / GIGABYTE, 1),
            percent=ram_percent or 100.0,
            use=_use(in_use),
        ),
    ]
    return Allowance(
        cpu=cpu,
        gpu=_gpu(preferences, situation, in_use, cpu),
        network=_network(preferences, situation, in_use),
        in_use=in_use,
        ncpus=ncpus,
        throttle_percent=throttle,
        ram_bytes=ram,
        swap_bytes=situation.swap_bytes * _part(preferences.vm_max_used_pct),
        leave_in_memory=preferences.leave_apps_in_memory,
        hot=hot,
        reasons=tuple(reasons),
    )


def _part(percent: float) -> float:
    return min(percent, 100.0) / 100.0 if percent > 0 else 1.0


def _use(in_use: bool) -> str:
    return "in use" if in_use else "not in use"


#: Why an activity pauses: the family's number and the sentence, by the code of the reason.
_WHY = {
    "start_delay": (SuspendReason.INITIAL_DELAY, "Computing begins {seconds} s after the client's start."),
    "run_mode_never": (SuspendReason.USER_REQUEST, "Computing is switched off by you."),
    "hot": (SuspendReason.OS, "The computer is hot ({celsius} °C); computing goes on below {limit} °C."),
    "time_of_day": (SuspendReason.TIME_OF_DAY, "Computing is allowed from {start} to {end} today."),
    "no_recent_input": (
        SuspendReason.NO_RECENT_INPUT,
        "The computer has not been used for {minutes} {minutes:minute|minutes}.",
    ),
    "exclusive_app": (
        SuspendReason.EXCLUSIVE_APP,
        "{app} is running, which has exclusive use of the computer.",
    ),
    "other_load": (
        SuspendReason.CPU_USAGE,
        "Other programs use {percent} % of the CPUs; the limit while the computer is {use} is {limit} %.",
    ),
    "battery_charge": (
        SuspendReason.BATTERY_CHARGE,
        "The battery is at {percent} %; computing waits for {limit} %.",
    ),
    "battery_heat": (SuspendReason.BATTERY_HEAT, "The battery is at {celsius} °C; the limit is {limit} °C."),
    "user_active": (
        SuspendReason.USER_ACTIVE,
        "The computer is in use; it counts as not in use after {minutes} {minutes:minute|minutes} without input.",
    ),
    "gpu_mode_never": (
        SuspendReason.USER_REQUEST,
        "Computing on graphics processors is switched off by you.",
    ),
    "exclusive_gpu_app": (
        SuspendReason.EXCLUSIVE_APP,
        "{app} is running, which has exclusive use of the graphics processor.",
    ),
    "network_mode_never": (SuspendReason.USER_REQUEST, "The network is switched off by you."),
    "network_time_of_day": (SuspendReason.TIME_OF_DAY, "Transfers are allowed from {start} to {end} today."),
    "quota": (
        SuspendReason.NETWORK_QUOTA,
        "{used} MB have been transferred; the limit is {limit} MB in {days} {days:day|days}.",
    ),
    "benchmarks": (SuspendReason.BENCHMARKS, "The computer's speed is being measured."),
    "batteries": (SuspendReason.BATTERIES, "The computer runs on battery."),
    "mobile": (SuspendReason.WIFI, "The connection is mobile; transfers wait for another."),
    "metered": (SuspendReason.WIFI, "The connection is metered; transfers wait for another."),
}


def _suspended(code: str, until: float | None = None, **values: Value) -> RunPermission:
    by, sentence = _WHY[code]
    return RunPermission(code=by, reasons=(reason(code, sentence, **values),), until=until)


def _cpu(
    preferences: ComputingPreferences, config: ClientConfig, situation: Situation, in_use: bool, hot: bool
) -> RunPermission:
    if situation.benchmarks_running:
        return _suspended("benchmarks")
    if situation.seconds_since_start < config.start_delay:
        until = situation.now + config.start_delay - situation.seconds_since_start
        return _suspended("start_delay", until, seconds=config.start_delay)
    if situation.run_mode is Mode.NEVER:
        return _suspended("run_mode_never", situation.run_mode_until)
    if hot:
        return _suspended(
            "hot",
            celsius=round(situation.celsius or 0.0),
            limit=preferences.temperature_pause - TEMPERATURE_RELEASE,
        )
    if situation.run_mode is Mode.ALWAYS:
        return RunPermission(until=situation.run_mode_until)
    return _cpu_by_preferences(preferences, situation, in_use)


def _cpu_by_preferences(
    preferences: ComputingPreferences, situation: Situation, in_use: bool
) -> RunPermission:
    if power := _power(preferences, situation):
        return power
    idle = situation.idle_seconds
    if in_use and not preferences.run_if_user_active:
        return _user_active(preferences, situation)
    by_day = _by_day("time_of_day", preferences.hours, preferences.day_hours, situation)
    if not by_day.allowed:
        return by_day
    patience = 60 * preferences.suspend_if_no_recent_input
    if patience > 0 and idle is not None and idle > patience:
        return _suspended("no_recent_input", minutes=round(idle / 60))
    if situation.exclusive_app:
        return _suspended("exclusive_app", app=situation.exclusive_app)
    limit = load_limit(preferences, in_use=in_use)
    if limit > 0 and situation.others_busy:
        return _suspended(
            "other_load", percent=round(situation.other_load or 0.0), use=_use(in_use), limit=limit
        )
    return by_day


def _by_day(code: str, general: Hours, days: Mapping[int, Hours], situation: Situation) -> RunPermission:
    """Return whether the hours of the day allow an activity, and until when."""
    hours = day_window(general, days, situation.weekday)
    change = next_change(general, days, situation.weekday, situation.hour)
    until = None if change is None else situation.now + 3600 * change
    if is_within(hours, situation.hour):
        return RunPermission(until=until)
    return _suspended(code, until, start=clock_time(hours.start), end=clock_time(hours.end))


def _power(preferences: ComputingPreferences, situation: Situation) -> RunPermission | None:
    if situation.on_battery and not preferences.run_on_batteries:
        return _suspended("batteries")
    charge = situation.battery_percent
    if charge is not None and charge < preferences.battery_charge_min_pct:
        return _suspended("battery_charge", percent=round(charge), limit=preferences.battery_charge_min_pct)
    heat = situation.battery_celsius
    if heat is not None and 0 < preferences.battery_max_temperature < heat:
        return _suspended("battery_heat", celsius=round(heat), limit=preferences.battery_max_temperature)
    return None


def _user_active(preferences: ComputingPreferences, situation: Situation) -> RunPermission:
    return _suspended("user_active", minutes=preferences.idle_time_to_run)


def _gpu(
    preferences: ComputingPreferences, situation: Situation, in_use: bool, cpu: RunPermission
) -> RunPermission:
    if not cpu.allowed:
        return cpu
    if situation.gpu_mode is Mode.NEVER:
        return _suspended("gpu_mode_never", situation.gpu_mode_until)
    if situation.gpu_mode is Mode.ALWAYS:
        return RunPermission(until=situation.gpu_mode_until)
    if situation.exclusive_gpu_app:
        return _suspended("exclusive_gpu_app", app=situation.exclusive_gpu_app)
    if in_use and not preferences.run_gpu_if_user_active:
        return _user_active(preferences, situation)
    return RunPermission(until=cpu.until)


def _network(preferences: ComputingPreferences, situation: Situation, in_use: bool) -> RunPermission:
    if situation.now < situation.network_open_until:
        return RunPermission(until=situation.network_open_until)
    if situation.network_mode is Mode.NEVER:
        return _suspended("network_mode_never", situation.network_mode_until)
    if situation.network_mode is Mode.ALWAYS:
        return RunPermission(until=situation.network_mode_until)
    if in_use and not preferences.run_if_user_active:
        return _user_active(preferences, situation)
    by_day = _by_day(
        "network_time_of_day", preferences.network_hours, preferences.day_network_hours, situation
    )
    if not by_day.allowed:
        return by_day
    if situation.exclusive_app:
        return _suspended("exclusive_app", app=situation.exclusive_app)
    return _network_limits(preferences, situation) or by_day


def _network_limits(preferences: ComputingPreferences, situation: Situation) -> RunPermission | None:
    quota = 1e6 * preferences.daily_xfer_limit_mb
    if quota > 0 and preferences.daily_xfer_period_days > 0 and situation.transferred_bytes >= quota:
        return _suspended(
            "quota",
            used=round(situation.transferred_bytes / 1e6),
            limit=preferences.daily_xfer_limit_mb,
            days=preferences.daily_xfer_period_days,
        )
    if preferences.network_wifi_only and situation.mobile:
        return _suspended("mobile")
    if preferences.network_unmetered_only and situation.metered:
        return _suspended("metered")
    return None


def _ncpus(
    preferences: ComputingPreferences, config: ClientConfig, situation: Situation, in_use: bool
) -> tuple[int, Reason]:
    total = config.ncpus if config.ncpus > 0 else situation.ncpus
    percent = (preferences.max_ncpus_pct if in_use else preferences.niu_max_ncpus_pct) or 100.0
    # The small addition undoes what rounding takes from products such as 100 x 0.29.
    ncpus = max(1, min(total, math.floor(total * percent / 100 + 1e-9)))
    if preferences.max_ncpus and not preferences.max_ncpus_pct:
        ncpus = max(1, min(ncpus, preferences.max_ncpus))
    return ncpus, reason(
        "cpus",
        "{ncpus} of {total} CPUs are used: {percent} % while the computer is {use}.",
        ncpus=ncpus,
        total=total,
        percent=percent,
        use=_use(in_use),
    )


def _is_hot(preferences: ComputingPreferences, situation: Situation) -> bool:
    limit, celsius = preferences.temperature_pause, situation.celsius
    if limit <= 0 or celsius is None:
        return False
    return celsius >= limit - (TEMPERATURE_RELEASE if situation.was_hot else 0.0)


def _throttle(
    preferences: ComputingPreferences, situation: Situation, in_use: bool
) -> tuple[float, list[Reason]]:
    limit = preferences.cpu_usage_limit if in_use else preferences.niu_cpu_usage_limit
    percent = min(limit, 100.0) if limit > 0 else 100.0
    reasons: list[Reason] = []
    if percent < 100.0:
        reasons.append(
            reason(
                "throttle",
                "Jobs run {percent} % of the time while the computer is {use}.",
                percent=percent,
                use=_use(in_use),
            )
        )
    begin, end, celsius = preferences.temperature_throttle, preferences.temperature_pause, situation.celsius
    if celsius is not None and 0 < begin < celsius:
        span = max(1.0, end - begin) if end > begin else 10.0
        cooled = max(MIN_THROTTLE, 100.0 * (1.0 - (celsius - begin) / span))
        if cooled < percent:
            percent = cooled
            reasons.append(
                reason(
                    "warm",
                    "Jobs run {percent} % of the time, because the computer is at {celsius} °C.",
                    percent=round(percent),
                    celsius=round(celsius),
                )
            )
    return percent, reasons


# -- disk -------------------------------------------------------------------------------------------------------------


def allowed_disk(preferences: ComputingPreferences, *, total: float, free: float, used: float) -> float:
    """Return how many bytes of disk the client may use: the least of the three limits."""
    limits = [used + free - GIGABYTE * preferences.disk_min_free_gb]
    if preferences.disk_max_used_pct > 0:
        limits.append(total * _part(preferences.disk_max_used_pct))
    if preferences.disk_max_used_gb > 0:
        limits.append(GIGABYTE * preferences.disk_max_used_gb)
    return max(0.0, min(limits))


# -- for the core -----------------------------------------------------------------------------------------------------


def to_core(allowance: Allowance) -> CorePermission:
    """Return the same in the form that the scheduling core takes."""

    def name(permission: RunPermission) -> str:
        return "" if permission.allowed else permission.reasons[0].code

    return CorePermission(
        cpu=name(allowance.cpu),
        gpu=name(allowance.gpu),
        network=name(allowance.network),
        ncpus=allowance.ncpus,
        throttle=allowance.throttle_percent / 100.0,
        ram_bytes=allowance.ram_bytes or None,
        swap_bytes=allowance.swap_bytes or None,
        leave_in_memory=allowance.leave_in_memory,
        cpu_ends=allowance.cpu.until if allowance.cpu.allowed else None,
        network_ends=allowance.network.until if allowance.network.allowed else None,
    )
