"""A picture of a comparison of credit systems (needs the extra ``lab``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.comparison import CHEATS, WINDOW, SystemFigures
from cobblestone.credit_lab.population import Cheat
from cobblestone.domain.errors import ConfigError
from cobblestone.simulator.picture import load_matplotlib

_COLOURS = ("#8d6e63", "#7e57c2", "#e69f00", "#c1121f", "#0a7e5c", "#0072b2", "#555555")
_LABELS = {
    Cheat.RUN_TIME: "run time × 10",
    Cheat.BENCHMARK: "benchmark × 10",
    Cheat.COUNTS: "counts × 10",
    Cheat.NOW_AND_THEN: "run time × 10,\none result in ten",
    Cheat.IDENTITIES: "run time × 10,\nnew identities",
    Cheat.CHERRY_PICKING: "cherry picking",
}
_SUFFIXES = (".svg", ".png", ".pdf")


def check_picture(path: Path) -> None:
    """Raise `ConfigError` when a picture cannot be drawn there, before anything is computed for it."""
    load_matplotlib()
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"{path}: a picture is a {', '.join(_SUFFIXES)} file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")


def draw_comparison(found: Sequence[SystemFigures], path: Path) -> None:
    """Write the picture: levels as results come in, spreads, and what cheating brings.

    Raises:
        ConfigError: Matplotlib is missing, or the file cannot be written.
    """
    check_picture(path)
    plt = load_matplotlib()
    plt.rcParams.update(
        {"svg.hashsalt": "cobblestone", "svg.fonttype": "none"}
    )  # the same figures, the same file
    fig, axes = plt.subplots(3, 1, figsize=(8.5, 11), layout="constrained")
    colours = [_COLOURS[place % len(_COLOURS)] for place in range(len(found))]
    _levels(axes[0], found, colours)
    _groups(
        axes[1],
        found,
        colours,
        ["results,\nestimates with errors", "results,\nexact estimates", "hosts"],
        [[each.spread, each.spread_exact, each.spread_hosts] for each in found],
    )
    axes[1].set_title("Credit of equal work: standard deviation / mean (lower is better)")
    axes[1].set_ylim(bottom=0.0)
    labels = [_LABELS[cheat] for cheat in CHEATS]
    gains = [[each.gains[cheat.value] for cheat in CHEATS] for each in found]
    _groups(axes[2], found, colours, labels, gains, base=1.0)
    axes[2].set_title("Credit of cheaters: times what they get when honest (1 is best)")
    axes[2].axhline(1.0, color="black", linewidth=0.8)
    axes[2].set_yscale("log")
    axes[2].set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes[2].set_yticks([], minor=True)
    try:
        fig.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        plt.close(fig)


def _levels(axis: Any, found: Sequence[SystemFigures], colours: Sequence[str]) -> None:
    for each, colour in zip(found, colours, strict=True):
        results = [(place + 1) * WINDOW for place in range(len(each.levels))]
        axis.plot(results, each.levels, color=colour, label=each.system, marker=".")
    axis.set_title(f"Credit per true operation, in units, means of {WINDOW} results (flat is good)")
    axis.set_xlabel("results")
    axis.set_ylim(bottom=0.0)
    axis.legend(ncols=2, frameon=False)


def _groups(
    axis: Any,
    found: Sequence[SystemFigures],
    colours: Sequence[str],
    labels: Sequence[str],
    heights: Sequence[Sequence[float]],
    *,
    base: float = 0.0,
) -> None:
    """Bars side by side, a group per label, from ``base`` up or down."""
    width = 0.8 / len(found)
    for place, (each, colour) in enumerate(zip(found, colours, strict=True)):
        left = [group - 0.4 + (place + 0.5) * width for group in range(len(labels))]
        above = [height - base for height in heights[place]]
        axis.bar(left, above, width * 0.92, bottom=base, color=colour, label=each.system)
    axis.set_xticks(range(len(labels)), labels)
