"""Draw the spectrum as an SVG picture, with the standard library alone; it follows the viewer's light or dark setting."""

import math
from html import escape

WIDTH, HEIGHT = 1000, 712
LEFT, RIGHT = 72, 968
SERIES_TOP, SERIES_BOTTOM = 128, 238
TOP, BOTTOM = 316, 622
SHORTEST, LONGEST = 2.0, 200.0
TITLE = "Periodogram of the yearly sunspot numbers"
SOURCE = "data: National Geophysical Data Center (NOAA), public domain"

GLOW = """<defs><linearGradient id="glow" x1="0" y1="0" x2="0" y2="1">
<stop class="hot" offset="0"/><stop class="cold" offset="1"/></linearGradient></defs>"""
STYLE = """
text { font-family: "Inter", "Segoe UI", system-ui, "Helvetica Neue", Arial, sans-serif; fill: #1f2933; }
.paper { fill: #fffdf8; } .title { font-size: 27px; font-weight: 700; } .subtitle { font-size: 15px; fill: #616e7c; }
.tick { font-size: 13px; fill: #616e7c; } .caption { font-size: 14px; font-weight: 600; fill: #52606d; }
.grid { stroke: #e4e0d6; stroke-width: 1; } .axis { stroke: #9aa5b1; stroke-width: 1; }
.curve { fill: none; stroke: #c2410c; stroke-width: 2; stroke-linejoin: round; } .area { fill: url(#glow); }
.series { fill: #f59e0b; fill-opacity: 0.35; }
.outline { fill: none; stroke: #d97706; stroke-width: 1.4; stroke-linejoin: round; }
.level { stroke: #2563eb; stroke-width: 1.5; stroke-dasharray: 7 5; } .note { font-size: 13px; fill: #2563eb; }
.peak { font-size: 25px; font-weight: 700; fill: #9a3412; } .dot { fill: #c2410c; stroke: #fffdf8; stroke-width: 2.5; }
.minor { font-size: 14px; font-weight: 600; fill: #9a3412; } .detail { font-size: 14px; fill: #52606d; }
.hot { stop-color: #f97316; stop-opacity: 0.75; } .cold { stop-color: #fbbf24; stop-opacity: 0.08; }
@media (prefers-color-scheme: dark) {
text { fill: #f1f5f9; } .paper { fill: #0f141b; } .subtitle, .tick { fill: #94a3b8; } .caption, .detail { fill: #cbd5e1; }
.grid { stroke: #232c38; } .axis { stroke: #52606d; } .curve { stroke: #fb923c; } .outline { stroke: #fbbf24; }
.level { stroke: #60a5fa; } .note { fill: #60a5fa; } .peak, .minor { fill: #fdba74; } .dot { fill: #fb923c; stroke: #0f141b; }
}
"""


def across(period):
    """Where a period lies, on a logarithmic axis."""
    return LEFT + (RIGHT - LEFT) * math.log(period / SHORTEST) / math.log(LONGEST / SHORTEST)


def line(points):
    """Return the points of a polyline as SVG path commands."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def text(x, y, words, kind, anchor="start"):
    """Return a text element."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def round_step(largest, parts):
    """Return a round distance between grid lines: 1, 2 or 5 times a power of ten."""
    raw = largest / parts
    power = 10 ** math.floor(math.log10(raw))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= raw)


def draw_series(years, values):
    """Draw the sunspot numbers themselves, above the spectrum."""
    scale = (SERIES_BOTTOM - SERIES_TOP) / max(values)
    points = [
        (LEFT + (RIGHT - LEFT) * (year - years[0]) / (years[-1] - years[0]), SERIES_BOTTOM - value * scale)
        for year, value in zip(years, values, strict=True)
    ]
    parts = [
        text(LEFT, SERIES_TOP - 12, "Sunspot number of each year", "caption"),
        f'<path class="series" d="{line([(LEFT, SERIES_BOTTOM), *points, (RIGHT, SERIES_BOTTOM)])}Z"/>',
        f'<path class="outline" d="{line(points)}"/>',
        f'<path class="axis" d="M{LEFT},{SERIES_BOTTOM}H{RIGHT}"/>',
    ]
    for year in range(years[0], years[-1] + 1, 50):
        x = LEFT + (RIGHT - LEFT) * (year - years[0]) / (years[-1] - years[0])
        parts.append(f'<path class="axis" d="M{x:.1f},{SERIES_BOTTOM}v5"/>')
        parts.append(text(x, SERIES_BOTTOM + 20, str(year), "tick", "middle"))
    return parts


def draw_axes(top_power):
    """Draw grid lines, ticks and captions of the spectrum."""
    parts = [
        text(LEFT, TOP - 16, "Share of the variance that a wave of this period explains", "caption"),
        text((LEFT + RIGHT) / 2, BOTTOM + 46, "period in years", "caption", "middle"),
    ]
    step = round_step(top_power, 4)
    for number in range(int(top_power / step) + 1):
        y = BOTTOM - (BOTTOM - TOP) * number * step / top_power
        parts.append(f'<path class="{"grid" if number else "axis"}" d="M{LEFT},{y:.1f}H{RIGHT}"/>')
        parts.append(text(LEFT - 10, y + 4.5, f"{100 * number * step:.0f} %", "tick", "end"))
    for period in (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200):
        x = across(period)
        parts.append(f'<path class="axis" d="M{x:.1f},{BOTTOM}v5"/>')
        parts.append(text(x, BOTTOM + 21, str(period), "tick", "middle"))
    return parts


def draw_curve(spectrum, height):
    """Draw power over period, with gaps where bands are missing."""
    pieces = []
    for piece in spectrum.pieces():
        points = [(across(1 / frequency), height(power)) for frequency, power in piece]
        area = line([(points[0][0], BOTTOM), *points, (points[-1][0], BOTTOM)])
        pieces += [f'<path class="area" d="{area}Z"/>', f'<path class="curve" d="{line(points)}"/>']
    return pieces


def draw_peaks(spectrum, height):
    """Label the strongest peak, and others above the level that stand apart from it."""
    power, period = spectrum.strongest()
    x, y = across(period), height(power)
    chance = f"chance of this by shuffling: p ≤ {spectrum.p_value(power):.1g}"
    parts = [
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="6.5"/>',
        text(x + 18, y + 9, f"{period:.1f} years", "peak"),
        text(x + 18, y + 31, f"explains {100 * power:.0f} % of the variance", "detail"),
        text(x + 18, y + 50, chance, "detail"),
    ]
    labelled = [period]
    for other_power, other in spectrum.peaks():
        if all(abs(math.log(other / known)) > math.log(1.4) for known in labelled):
            labelled.append(other)
            parts.append(
                text(across(other), height(other_power) - 10, f"{other:.0f} years", "minor", "middle")
            )
    return parts


def draw(spectrum, years, values):
    """Return the picture as SVG text."""
    top_power = max(1.12 * max(spectrum.powers), 1.2 * spectrum.level)

    def height(power):
        return BOTTOM - (BOTTOM - TOP) * power / top_power

    level = height(spectrum.level)
    done = (
        f"{spectrum.bands - spectrum.missing} of {spectrum.bands}"
        if spectrum.missing
        else str(spectrum.bands)
    )
    subtitle = (
        f"{spectrum.years[0]}–{spectrum.years[1]}: {len(spectrum.powers)} frequencies and "
        f"{len(spectrum.maxima)} shuffled series, searched in {done} workunits"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}">',
        f"<style>{STYLE}</style>",
        GLOW,
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="14"/>',
        text(LEFT, 48, "The rhythm of the Sun", "title"),
        text(LEFT, 74, subtitle, "subtitle"),
        *draw_series(years, values),
        *draw_axes(top_power),
        *draw_curve(spectrum, height),
        f'<path class="level" d="M{LEFT},{level:.1f}H{RIGHT}"/>',
        text(LEFT + 2, level - 8, "99 % of shuffled series stay below this line", "note"),
        *draw_peaks(spectrum, height),
        text(RIGHT, HEIGHT - 16, SOURCE, "tick", "end"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
