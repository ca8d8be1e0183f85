"""What ran when: recorders, and a picture with a lane per device and project (needs the extra ``lab``).

A picture of what ran when: devices above, one lane per project below, deadlines and misses marked (needs
the extra ``lab``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY
from cobblestone.ops.installation import how_to_install
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.world.scenario import Scenario

MAX_SPELLS = 200_000


@dataclass(slots=True)
class Spell:
    """An uninterrupted run of a job."""

    project: int
    number: int
    slot: int
    width: int  #: devices covered
    gpu: str
    start: float
    end: float
    edf: bool


@dataclass(frozen=True, slots=True)
class Finish:
    """A job's end, with its deadline."""

    project: int
    number: int
    at: float
    deadline: float
    failed: bool


@dataclass(slots=True)
class RunRecording:
    """Keeps what ran within a window of time, for pictures; also passes notes on to a log and keeps the
    latest of each kind.
    """

    start: float = 0.0
    end: float = 7 * 86400.0
    log: TextIO | None = None
    names: tuple[str, ...] = ()
    spells: list[Spell] = field(default_factory=list[Spell])
    finishes: list[Finish] = field(default_factory=list[Finish])
    off: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    notes: dict[str, tuple[float, list[str]]] = field(default_factory=dict[str, tuple[float, list[str]]])
    _open: dict[int, Spell] = field(default_factory=dict[int, Spell])
    _off_since: float = -1.0

    def started(self, task: SimTask, now: float) -> None:
        """Note that a task starts or resumes."""
        self._open[id(task)] = Spell(
            task.project, task.number, task.slot, task.width, task.gpu, now, now, task.edf
        )
        self._write(now, f"start {self._name(task)}{' (earliest deadline first)' if task.edf else ''}")

    def stopped(self, task: SimTask, now: float) -> None:
        """Note that a task stops."""
        spell = self._open.pop(id(task), None)
        if (
            spell is not None
            and now > self.start
            and spell.start < self.end
            and len(self.spells) < MAX_SPELLS
        ):
            spell.end = now
            self.spells.append(spell)
        self._write(now, f"stop {self._name(task)}, {task.done:.0f} s of {task.size:.0f} s done")

    def finished(self, task: SimTask, now: float) -> None:
        """Note that a task has ended."""
        if self.start <= now <= self.end and len(self.finishes) < MAX_SPELLS:
            self.finishes.append(Finish(task.project, task.number, now, task.report_deadline, task.failed))
        late = " LATE" if now > task.report_deadline else ""
        self._write(now, f"finished {self._name(task)}{late}")

    def available(self, on: bool, now: float) -> None:
        """Note that the host goes off or comes back."""
        if not on:
            self._off_since = now
        elif (
            self._off_since >= 0.0
            and now > self.start
            and self._off_since < self.end
            and len(self.off) < MAX_SPELLS
        ):
            self.off.append((self._off_since, now))
        self._write(now, "host on" if on else "host off")

    def note(self, now: float, kind: str, text: str) -> None:
        """Store a decision and its reason; only those up to the end of the window."""
        if now <= self.end:
            at, texts = self.notes.get(kind, (-1.0, []))
            if at != now:
                texts = []
            texts.append(text)
            self.notes[kind] = (now, texts)
        self._write(now, f"[{kind}] {text}")

    def _name(self, task: SimTask) -> str:
        project = self.names[task.project] if task.project < len(self.names) else str(task.project)
        return f"{project} job {task.number}"

    def _write(self, now: float, text: str) -> None:
        if self.log is not None:
            self.log.write(f"{now:14.1f} {text}\n")


MISS = "#c1121f"
OFF = "#e3e3e3"


def load_matplotlib() -> Any:
    """Return ``matplotlib.pyplot`` for use without a screen.  Raises :class:`ConfigError` if it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError(f"pictures need the extra: {how_to_install('lab')}") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


_UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_picture(plt: Any, fig: Any, path: Path, dpi: int) -> None:
    """Write a figure and let go of it; the same figures make the same file."""
    try:
        with plt.rc_context({"svg.hashsalt": "cobblestone"}):  # names of parts are not drawn by lot
            fig.savefig(path, metadata=_UNDATED.get(path.suffix), dpi=dpi)
    finally:
        plt.close(fig)


def require_picture(path: Path) -> None:
    """Raise :class:`ConfigError`, before the work, if no picture can be written to this path."""
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise ConfigError(f"picture = {str(path)!r}: the name must end in .svg, .png or .pdf")
    if not path.parent.is_dir():
        raise ConfigError(f"picture = {str(path)!r}: there is no folder {str(path.parent)!r}")
    load_matplotlib()


def literal(name: str) -> str:
    """Return a name as text for a picture: text between two dollar signs would be a formula."""
    return name.replace("$", r"\$")


def colour(index: int) -> str:
    """Return a colour for a project: hues that differ from their neighbours, alternately light and dark; none near `MISS`."""
    import colorsys

    hue = 0.07 + 0.85 * ((0.6 + index * 0.38196601125) % 1.0)  # golden section, from blue; red is left out
    red, green, blue = colorsys.hls_to_rgb(hue, (0.42, 0.6)[index % 2], 0.55)
    return f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"


def draw_timeline(timeline: RunRecording, scenario: Scenario, path: Path, *, title: str) -> None:
    """Write the picture; the suffix of ``path`` (.svg, .png, .pdf) determines the format."""
    plt = load_matplotlib()
    devices = _device_rows(timeline, scenario)
    lanes = len(scenario.projects)
    fig, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(13, 1.6 + 0.32 * len(devices) + 0.36 * lanes), layout="constrained",
        gridspec_kw={"height_ratios": [len(devices) + 0.6, lanes + 0.6]},
    )  # fmt: skip
    low, high = timeline.start, min(timeline.end, scenario.duration)
    for axes in (top, bottom):
        _shade_off(axes, timeline, low, high)
    _bars(top, timeline.spells, low, high, [devices.index(_device(s.gpu, s.slot)) for s in timeline.spells])
    _bars(bottom, timeline.spells, low, high, None)
    _ends(bottom, timeline.finishes, low, high)
    top.set_yticks(range(len(devices)), [literal(each) for each in devices])
    top.set_ylim(len(devices) - 0.4, -0.6)
    top.set_title(literal(title), loc="left", fontsize=11)
    bottom.set_yticks(
        range(lanes), [literal(p.name) for p in scenario.projects], fontsize=8 if lanes > 12 else 9
    )
    bottom.set_ylim(lanes - 0.4, -0.6)
    bottom.set_xlim(low / DAY, high / DAY)
    bottom.set_xlabel(
        "days.  Red edge: run early because of a deadline; dot: finished in time; red cross: finished late or failed;"
        " dotted line: deadline; grey: host off",
        fontsize=9,
    )
    save_picture(plt, fig, path, 130)


def _device(gpu: str, slot: int) -> str:
    return f"{gpu or 'CPU'} {slot}"


def _device_rows(timeline: RunRecording, scenario: Scenario) -> list[str]:
    rows = [_device("", i) for i in range(scenario.host.ncpus)] if scenario.host.ncpus <= 16 else []
    used = {(s.gpu != "", s.gpu, s.slot + i) for s in timeline.spells for i in range(s.width)}
    rows += [_device(gpu, slot) for _, gpu, slot in sorted(used) if _device(gpu, slot) not in rows]
    return rows or ["CPU 0"]


def _bars(axes: Any, spells: Sequence[Spell], low: float, high: float, rows: Sequence[int] | None) -> None:
    """Draw what ran, on devices (``rows``) or in lanes of projects; one artist for all, since each costs time."""
    from matplotlib.collections import PolyCollection

    corners: list[list[tuple[float, float]]] = []
    shown: list[Spell] = []
    for k, spell in enumerate(spells):
        left, right = max(spell.start, low) / DAY, min(spell.end, high) / DAY
        if right <= left:
            continue
        upper = rows[k] - 0.4 if rows is not None else spell.project - 0.32
        lower = upper + (spell.width - 0.2 if rows is not None else 0.64)
        corners.append([(left, upper), (right, upper), (right, lower), (left, lower)])
        shown.append(spell)
    axes.add_collection(
        PolyCollection(
            corners,
            facecolors=[colour(s.project) for s in shown],
            edgecolors=[MISS if s.edf else "white" for s in shown],
            linewidths=[1.1 if s.edf else 0.3 for s in shown],
        ),
        autolim=False,
    )


def _ends(axes: Any, finishes: Sequence[Finish], low: float, high: float) -> None:
    """Mark the ends of jobs and their deadlines; late ones are highlighted."""
    for late, shade, marker, size in ((False, "black", ".", 16), (True, MISS, "X", 60)):
        mine = [f for f in finishes if (f.at > f.deadline or f.failed) is late]
        axes.scatter(
            [f.at / DAY for f in mine], [f.project for f in mine], marker=marker, s=size, color=shade, zorder=4,
            edgecolors="white" if late else "none", linewidths=0.4,
        )  # fmt: skip
        due = [f for f in mine if low <= f.deadline <= high]
        axes.vlines(
            [f.deadline / DAY for f in due], [f.project - 0.45 for f in due], [f.project + 0.45 for f in due],
            color=shade, linewidth=0.9, linestyle=":", zorder=3,
        )  # fmt: skip


def _shade_off(axes: Any, timeline: RunRecording, low: float, high: float) -> None:
    off = [
        (max(start, low) / DAY, (min(end, high) - max(start, low)) / DAY)
        for start, end in timeline.off
        if end > low and start < high
    ]
    axes.broken_barh(
        off, (0, 1), transform=axes.get_xaxis_transform(), color=OFF, alpha=0.8, linewidth=0, zorder=2.5
    )
