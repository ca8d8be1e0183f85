"""What the collector keeps over a restart: the last good export of each project, in one file that is replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_durably
from cobblestone.policy.credit.cross_project import CollectedScales
from cobblestone.scales.source import Source

FORMAT = 1
MAX_STATE_BYTES = 1_000_000_000


class KeptSource(msgspec.Struct, frozen=True):
    """A project of the list, and how it went."""

    url: str
    last: CollectedScales | None
    n_refused: int
    problem: str
    tried: float


class State(msgspec.Struct, frozen=True):
    """The whole file."""

    format: int
    sources: list[KeptSource]


def write_state(path: Path, sources: Sequence[Source]) -> None:
    """Keep what is known.  Raises OSError."""
    kept = [KeptSource(each.url, each.last, each.n_refused, each.problem, each.tried) for each in sources]
    write_durably(path, msgspec.json.encode(State(FORMAT, kept)))


def read_state(path: Path, sources: Sequence[Source]) -> int:
    """Fill in what was known of projects that are still on the list; how many.  Nothing, if there is no file yet.

    Raises:
        ConfigError: the file cannot be read, or is none of this service's.
    """
    if not path.exists():
        return 0
    try:
        if path.stat().st_size > MAX_STATE_BYTES:
            raise ValueError(f"longer than {MAX_STATE_BYTES} bytes")
        state = msgspec.json.decode(path.read_bytes(), type=State)
        if state.format != FORMAT:
            raise ValueError(f"format {state.format}, not {FORMAT}")
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} is not what this service keeps ({error}). Give another --state, or remove it to begin anew."
        ) from error
    known = {each.url: each for each in state.sources}
    n_found = 0
    for source in sources:
        kept = known.get(source.url)
        if kept is None:
            continue
        n_found += 1
        source.last, source.n_refused = kept.last, kept.n_refused
        source.problem, source.tried = kept.problem, kept.tried
    return n_found
