"""The hosts of a population: drawn from distributions, or read from a CSV file.

What is known and what is assumed:

* Speed of a CPU: log-normal (Heien, Kondo, Anderson, "A Correlated Resource Model of Internet End Hosts", IEEE
  TPDS 23 (6), 2012, find this family for processor speed).  Mean 2.2e9 and standard deviation 0.7e9 FLOP/s are
  what BOINC's server takes for a population that it does not know.
* Number of CPUs, fraction of time available and length of the on-periods: assumptions, in round numbers.  Who
  has figures of a real population puts them into a CSV file with the columns ``ncpus, flops, fraction, mean_on``;
  with ``day_start`` and ``day_end`` (hours of the day, of one time zone for all) a host is on between these only.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY, HOUR
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import HostModel, OnOff, pick_weighted

MEAN_FLOPS = 2.2e9
STDEV_FLOPS = 0.7e9
CPUS = ((1, 0.1), (2, 0.25), (4, 0.4), (8, 0.2), (16, 0.05))
FRACTION_BETA = (2.5, 1.0)  #: mean 0.71, many hosts nearly always on, some rarely
MEDIAN_ON = 4 * 3600.0
ON_SIGMA = 1.0  #: of the logarithm
MAX_HOSTS = 100_000
COLUMNS = ("ncpus", "flops", "fraction", "mean_on")
#: Hours of the day between which the host may be on; both or none of them.
HOURS = ("day_start", "day_end")


def hosts_for(what: str | int, *, seed: int) -> list[HostModel]:
    """Return the hosts of a scenario: a number of drawn ones, or those of a CSV file.  Raises :class:`ConfigError`."""
    text = str(what)
    try:
        count = float(text)
    except ValueError:
        return read_hosts(Path(text))
    if not 1 <= count <= MAX_HOSTS or count != int(count):
        raise ConfigError(
            f"hosts = {text} is not possible; allowed: 1 to {MAX_HOSTS}, or the name of a CSV file"
        )
    return draw_hosts(int(count), seed=seed)


def draw_hosts(count: int, *, seed: int) -> list[HostModel]:
    """Draw hosts from the distributions above; the first n hosts are the same for any count."""
    rng = Streams(seed).stream("population")
    spread = math.log1p((STDEV_FLOPS / MEAN_FLOPS) ** 2)
    hosts: list[HostModel] = []
    for _ in range(count):
        ncpus = CPUS[pick_weighted(tuple(w for _, w in CPUS), rng.random())][0]
        fraction = min(1.0, max(0.05, rng.betavariate(*FRACTION_BETA)))
        on = min(30 * DAY, max(60.0, rng.lognormvariate(math.log(MEDIAN_ON), ON_SIGMA)))
        flops = rng.lognormvariate(math.log(MEAN_FLOPS) - spread / 2.0, math.sqrt(spread))
        hosts.append(HostModel(ncpus=ncpus, flops=flops, availability=OnOff(fraction=fraction, mean_on=on)))
    return hosts


def read_hosts(path: Path) -> list[HostModel]:
    """Read hosts from a CSV file.  Raises :class:`ConfigError` naming file, line, key and value."""
    hosts: list[HostModel] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            table = csv.reader(stream)
            header = [name.strip() for name in next(table, list[str]())]
            _require_columns(path, header)
            columns = COLUMNS + tuple(key for key in HOURS if key in header)
            for fields in table:
                if not fields:
                    continue  # an empty line
                if len(fields) != len(header):
                    raise ConfigError(
                        f"{path}, line {table.line_num}: {len(fields)} values under {len(header)} columns"
                    )
                if len(hosts) == MAX_HOSTS:
                    raise ConfigError(
                        f"{path}: more than {MAX_HOSTS} hosts; remove some, for example at random: a sample is as good"
                    )
                hosts.append(_host(path, table.line_num, dict(zip(header, fields, strict=True)), columns))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: is not a CSV file: {error}") from error
    if not hosts:
        raise ConfigError(f"{path}: no host after the header ({', '.join(COLUMNS)})")
    return hosts


def _require_columns(path: Path, header: list[str]) -> None:
    """Further columns are ignored."""
    for key in COLUMNS:
        if header.count(key) != 1:
            what = "is missing" if key not in header else "occurs more than once"
            raise ConfigError(
                f"{path}, line 1: the column {key} {what}; the first line names {', '.join(COLUMNS)},"
                f" separated by commas; it is {', '.join(header)[:100]!r}"
            )


def _host(path: Path, number: int, row: dict[str, str], columns: tuple[str, ...]) -> HostModel:
    values: dict[str, float] = {}
    for key in columns:
        text = row[key]
        try:
            values[key] = float(text)
        except ValueError:
            raise ConfigError(
                f"{path}, line {number}: {key} = {text!r}: the columns {', '.join(columns)} hold numbers"
            ) from None
    ncpus = values["ncpus"]
    if not math.isfinite(ncpus) or ncpus != int(ncpus):
        raise ConfigError(f"{path}, line {number}: ncpus = {ncpus:g} is not possible; allowed: 1 to 1024")
    host = HostModel(
        ncpus=int(ncpus),
        flops=values["flops"],
        availability=OnOff(
            fraction=values["fraction"],
            mean_on=values["mean_on"],
            day_start=HOUR * values.get("day_start", 0.0),
            day_end=HOUR * values.get("day_end", 0.0),
        ),
    )
    try:
        host.check()
    except ConfigError as error:
        raise ConfigError(f"{path}, line {number}: {error}") from error
    return host
