"""Read a scenario from TOML.  Every error names file, key, value and the allowed values."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY, HOUR
from cobblestone.policy.client.choice import Faults2007
from cobblestone.simulator.host.run import require_sane_number_of_jobs
from cobblestone.simulator.host.server import job_speed
from cobblestone.simulator.world.distributions import read_trace
from cobblestone.simulator.world.scenario import (
    AppModel,
    Compatibility,
    Gpus,
    HostModel,
    JobSizes,
    OnOff,
    Preferences,
    ProgressCurve,
    ProjectModel,
    Scenario,
    ServerModel,
    require,
)

Value = TypeVar("Value")
#: What the file says of an object beside its own keys.
_INSIDE: Mapping[type, Sequence[str]] = {
    Scenario: ["[host]", "[preferences]", "[[project]]", "[compatibility]"],
    HostModel: ["[host.availability]", "[[host.gpu]]"],
    ProjectModel: ["[[project.app]]", "[project.downtime]", "[project.server]"],
    AppModel: ["flops_mean", "flops_stdev", "flops_kind", "slack", "[project.app.progress]"],
    JobSizes: ["flops_estimate"],
    Compatibility: ["[compatibility.faults]"],
}
_KINDS = {"str": "a text", "bool": "true or false", "float": "a finite number"}
MAX_FILE_BYTES = 4 * 1024 * 1024
NO_DEFAULTS: Mapping[str, float] = {}
USUAL_HOST = {"fraction": 0.8, "mean_on": 1000.0}
_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": HOUR, "d": DAY}
#: keys whose values are times: a number of seconds, or a text such as "9 d", "8.4 h", "10 min"
_TIMES = {
    "duration", "mean_on", "trace_length", "latency_bound", "checkpoint_period", "connection_interval", "slice_seconds",
    "buffer_min", "day_start", "day_end", "buffer_additional", "rec_half_life", "quantum", "lifetime",
    "service_seconds", "longest_wait", "daemon_seconds",
}  # fmt: skip


def read_scenario(path: Path) -> Scenario:
    """Read and check a scenario file.  Raises :class:`ConfigError`."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; this is not a scenario")
        data = tomllib.loads(content.decode().replace("\r\n", "\n"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # of TOML, UTF-8, a number with thousands of digits
        raise ConfigError(f"{path}: is not TOML: {error}") from error
    try:
        return parse_scenario(data, folder=path.parent)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_scenario(data: Mapping[str, Any], *, folder: Path = Path()) -> Scenario:
    """Make a scenario from the tables of a TOML file.  Raises :class:`ConfigError`."""
    table = dict(data)
    if isinstance(table.get("hosts"), str):
        table["hosts"] = str(folder / table["hosts"])
    host = _host(dict(_table(table.pop("host", {}), "host")), folder)
    host.check()
    preferences = _make(Preferences, _table(table.pop("preferences", {}), "preferences"), "preferences")
    compat = dict(_table(table.pop("compatibility", {}), "compatibility"))
    faults = _make(
        Faults2007, _table(compat.pop("faults", {}), "compatibility.faults"), "compatibility.faults"
    )
    compatibility = _make(Compatibility, compat, "compatibility", faults=faults)
    projects = [
        _project(dict(_table(item, f"project {number}")), f"project {number}", folder, host)
        for number, item in enumerate(_list(table.pop("project", []), "project"), 1)
    ]
    if not projects:
        raise ConfigError("project: a scenario needs at least one [[project]]")
    scenario = _make(
        Scenario,
        table,
        "scenario",
        host=host,
        preferences=preferences,
        projects=tuple(projects),
        compatibility=compatibility,
    ).check()
    if not scenario.hosts:
        require_sane_number_of_jobs(scenario)
    return scenario


def _host(table: dict[str, Any], folder: Path) -> HostModel:
    availability = _on_off(table.pop("availability", {}), "host.availability", folder, usual=USUAL_HOST)
    gpus = tuple(
        _make(Gpus, _table(item, "host.gpu"), "host.gpu") for item in _list(table.pop("gpu", []), "host.gpu")
    )
    return _make(HostModel, table, "host", availability=availability, gpus=gpus)


def _project(table: dict[str, Any], where: str, folder: Path, host: HostModel) -> ProjectModel:
    downtime = _on_off(table.pop("downtime", {}), f"{where}.downtime", folder)
    server = _make(ServerModel, _table(table.pop("server", {}), f"{where}.server"), f"{where}.server")
    apps = [
        _app(dict(_table(item, f"{where}.app")), f"{where}.app", host)
        for item in _list(table.pop("app", [{}]), f"{where}.app")
    ]
    return _make(ProjectModel, table, where, downtime=downtime, server=server, apps=tuple(apps))


def _app(table: dict[str, Any], where: str, host: HostModel) -> AppModel:
    sizes = {
        key.removeprefix("flops_"): table.pop(key)
        for key in list(table)
        if key.startswith("flops_") and key != "flops_estimate"
    }
    if "flops_estimate" in table:
        _number(table["flops_estimate"], f"{where}.flops_estimate")
    if "mean" not in sizes and "flops_estimate" in table and "values" not in sizes:
        sizes["mean"] = table["flops_estimate"]
    progress = _make(
        ProgressCurve, _table(table.pop("progress", {}), f"{where}.progress"), f"{where}.progress"
    )
    slack = _number(table.pop("slack"), f"{where}.slack") if "slack" in table else None
    if slack is not None and "latency_bound" in table:
        raise ConfigError(
            f"{where}.slack = {slack:g}: slack and latency_bound set the same value; remove one"
        )
    app = _make(
        AppModel, table, where, progress=progress, sizes=_make(JobSizes, sizes, where, prefix="flops_")
    )
    if slack is None:
        return app
    require(0.01 <= slack <= 1e6, where, "slack", slack, "0.01 to 1e+06")
    app.check(where)
    speed = job_speed(app, host)  # 0 if it needs a GPU that the host lacks, which is said later
    return replace(app, latency_bound=slack * app.flops_estimate / speed) if speed > 0.0 else app


def _on_off(value: Any, where: str, folder: Path, usual: Mapping[str, float] = NO_DEFAULTS) -> OnOff:
    table = dict(_table(value, where))
    name = table.pop("trace_file", None)
    if name is None:
        # whoever names hours alone means all of them
        return _make(
            OnOff, {**usual, **({"fraction": 1.0} if "day_end" in table else {}), **table}, where, trace=()
        )
    for key in ("fraction", "mean_on", "kind", "shape"):
        if key in table:
            raise ConfigError(f"{where}.{key} = {table[key]!r}: the trace sets when it is on; remove one")
    node = table.pop("trace_node", None)
    trace, length = read_trace(folder / str(name), node=None if node is None else str(node))
    return _make(OnOff, {"trace_length": length, **table}, where, trace=trace)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} = {value!r}: must be a table")
    return value  # type: ignore[no-any-return]  # tomllib's tables have text keys


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} = {value!r}: must be a list of tables, written [[{where}]]")
    return value  # type: ignore[no-any-return]  # of whatever tomllib read


def _make(
    kind: type[Value], table: Mapping[str, Any], where: str, *, prefix: str = "", **given: Any
) -> Value:
    """Make a dataclass from a table: unknown keys, wrong types and non-finite numbers are errors.

    ``prefix``: what the file has before the name of each field.
    """
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # every kind is a dataclass
    allowed = [*(prefix + name for name in sorted(set(known) - set(given))), *_INSIDE.get(kind, ())]
    values: dict[str, Any] = dict(given)
    for key, value in table.items():
        if key not in known or key in given:
            raise ConfigError(
                f"{where}: unknown key {prefix + key!r} = {value!r}; allowed: {', '.join(allowed)}"
            )
        values[key] = _convert(value, str(known[key].type), f"{where}.{prefix}{key}", key)
    try:
        return kind(**values)
    except TypeError as error:
        raise ConfigError(
            f"{where}: a key is missing: {str(error).rpartition(': ')[2]}; allowed: {', '.join(allowed)}"
        ) from error


def _convert(value: Any, wanted: str, where: str, key: str) -> Any:
    if key in _TIMES and isinstance(value, str):
        return _seconds(value, where)
    if wanted.startswith("tuple"):
        return _numbers(value, where)
    if isinstance(value, bool):
        if wanted != "bool":
            raise ConfigError(f"{where} = {value!r}: must be {_kind(wanted)}")
        return value
    if wanted == "int | str" and isinstance(value, str):
        return value
    if wanted.startswith("int"):
        if not isinstance(value, int):
            raise ConfigError(f"{where} = {value!r}: must be a whole number")
        _number(value, where)
        return value
    if wanted == "float" or (isinstance(value, int | float) and "float" in wanted):
        return _number(value, where)
    if wanted == "bool" or not isinstance(value, str):
        raise ConfigError(f"{where} = {value!r}: must be {_kind(wanted)}")
    return value


def _kind(wanted: str) -> str:
    """Return the allowed values of a field, in words."""
    return _KINDS.get(wanted, "a whole number" if wanted.startswith("int") else "a text or a number")


def _number(value: Any, where: str) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        raise ConfigError(f"{where}: must be a finite number; it has hundreds of digits") from None
    raise ConfigError(f"{where} = {value!r}: must be a finite number")


def _numbers(value: Any, where: str) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} = {value!r}: must be a list of numbers")
    return tuple(_number(v, where) for v in value)  # type: ignore[misc]  # checked one by one


def _seconds(text: str, where: str) -> float:
    number, _, unit = text.strip().partition(" ")
    try:
        value = float(number) * _UNITS[unit.strip()]
    except (ValueError, KeyError):
        raise ConfigError(
            f"{where} = {text!r}: a time is a number of seconds or a text such as '9 d', '8.4 h', '10 min'"
        ) from None
    return _number(value, where)
