"""A page about what would happen on a computer: the use of its time, what runs when, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import groupby

from cobblestone.domain.texts import several
from cobblestone.domain.values import DAY, HOUR, float_sum
from cobblestone.simulator.host.run import RunResult
from cobblestone.simulator.report.picture import RunRecording, Spell

#: Decisions shown at most; a longer window says how many it leaves out.
MAX_DECISIONS = 5000
#: Spells drawn at most.
MAX_DRAWN = 20_000
KINDS = {
    "schedule": "runs",
    "enforce": "waits",
    "give up": "gives up",
    "fetch": "work",
    "wait": "contact waits",
    "rpc": "contact",
}
WIDTH, ROW, LEFT = 1100, 36, 130

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --faint: #6a6a6a; --line: #d8d8d8; --off: #ececec;
  --bar: #bcd4ec; --late: #c1121f }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181a; --faint: #a0a0a0; --line: #3a3d40; --off: #26292c; --bar: #2c4a68; --late: #ff6b6b } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem; margin: 0 auto;
  padding: 1rem }
h1 { font-size: 1.6rem; line-height: 1.2 } h2 { font-size: 1.2rem; margin-top: 2rem }
table { border-collapse: collapse } th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left } .wide { overflow-x: auto }
svg { display: block; min-width: 1100px; width: 100% } svg text { fill: var(--ink); font-size: 13px }
.got { background: linear-gradient(90deg, var(--bar) var(--part), transparent 0) no-repeat; min-width: 9rem }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem } .tiles b { display: block; font-size: 1.5rem }
.tiles div { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 8rem }
.off { fill: var(--off) } .lane { stroke: var(--line) } .mark { fill: var(--late) }
details { border-top: 1px solid var(--line) } summary { padding: .4rem 0; cursor: pointer }
ol { list-style: none; padding: 0; margin: 0 0 1rem } li { padding: .15rem 0; overflow-wrap: anywhere }
time, .kind { color: var(--faint); font-variant-numeric: tabular-nums; margin-right: .6rem }
""".strip()


@dataclass(slots=True)
class Diary(RunRecording):
    """A timeline that keeps every decision of its window, without repetitions."""

    decisions: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    left_out: int = 0
    _last: dict[str, tuple[float, list[str], list[str]]] = field(
        default_factory=dict[str, tuple[float, list[str], list[str]]]
    )

    def note(self, now: float, kind: str, text: str) -> None:
        """Store a decision if it differs from the last of its kind."""
        # a slots dataclass is made again, so super() has lost its class
        super(Diary, self).note(now, kind, text)
        if not self.start <= now <= self.end:
            return
        at, texts, before = self._last.get(kind, (-1.0, [], []))
        if at != now:
            before, texts = texts, []
        # the figures in the sentence about a job or project change all the time
        told = text.partition(":")[0] in {each.partition(":")[0] for each in (*texts, *before)}
        texts.append(text)
        self._last[kind] = (now, texts, before)
        if told:
            return
        if len(self.decisions) < MAX_DECISIONS:
            self.decisions.append((now, kind, text))
        else:
            self.left_out += 1


def report_page(result: RunResult, diary: Diary) -> str:
    """Return the page as self-contained HTML."""
    scenario = result.scenario
    days = scenario.duration / DAY
    title = f"What would happen on this computer: {scenario.name}"
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>",
        f"<p>{escape(_summary(result))}</p>{_tiles(result)}",
        f"<h2>What each project gets in {days:g} days</h2><div class='wide'>{_table(result)}</div>",
        f"<h2>What runs when, day {diary.start / DAY:g} to {min(diary.end / DAY, days):g}</h2>",
        f"<div class='wide'>{_timeline(result, diary)}</div>",
        f"<p>{_legend(diary)}</p>",
        f"<h2>Why</h2>{_decisions(diary)}",
        f"<p>Policy {escape(str(result.policy))}, seed {result.seed}. Availability and sizes of jobs are drawn",
        "at random; another seed shows another week.</p></body></html>",
    ]
    return "\n".join(parts)


def _tiles(result: RunResult) -> str:
    metrics = result.metrics
    tiles = {
        "useful": f"{1.0 - metrics.waste - metrics.idleness:.1%}",
        "wasted": f"{metrics.waste:.1%}",
        "nothing to do": f"{metrics.idleness:.1%}",
        "results in time": f"{metrics.jobs:.0f}",
        "results late": f"{sum(p.missed for p in result.books.projects)}",
    }
    return f"<div class='tiles'>{''.join(f'<div><b>{value}</b>{name}</div>' for name, value in tiles.items())}</div>"


def _summary(result: RunResult) -> str:
    host = result.scenario.host
    hours = result.books.available / HOUR
    gpus = "".join(f", {g.count} {g.type}" for g in host.gpus)
    given_up = sum(p.given_up for p in result.books.projects)
    text = f"A computer with {several(host.ncpus, 'CPU')}{gpus} is on for {hours:.0f} hours."
    if given_up:
        text += f" Jobs given up because they would be late: {given_up}."
    return text


def _table(result: RunResult) -> str:
    books = result.books.projects
    total = float_sum(b.used + b.late + b.failed + b.lost for b in books) or 1.0
    shares = float_sum(p.share for p in result.scenario.projects)
    head = ("project", "share", "got", "in time", "late", "given up", "other errors", "contacts")
    rows = [f"<tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>"]
    for project, book in zip(result.scenario.projects, books, strict=True):
        part = (book.used + book.late + book.failed + book.lost) / total
        counts = (book.met, book.missed, book.given_up, book.errors - book.given_up, book.rpcs)
        rows.append(
            f"<tr><td>{escape(project.name)}</td><td>{project.share / shares:.1%}</td>"
            f"<td class='got' style='--part: {part:.1%}'>{part:.1%}</td>"
            f"{''.join(f'<td>{n}</td>' for n in counts)}</tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def _timeline(result: RunResult, diary: Diary) -> str:
    """Draw one lane per project: its running jobs, one below the other where several run."""
    projects = result.scenario.projects
    low, high = diary.start, min(diary.end, result.scenario.duration)
    height = ROW * len(projects) + 30

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT) * (min(max(at, low), high) - low) / (high - low)

    off = [
        f'<rect class="off" x="{x(a):.1f}" y="0" width="{x(b) - x(a):.1f}" height="{height - 30}"/>'
        for a, b in diary.off
    ]
    shapes: list[str] = []
    for i, project in enumerate(projects):
        y = ROW * (i + 1)
        shapes.append(f'<line class="lane" x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>')
        shapes.append(f'<text x="0" y="{y - ROW / 2 + 5}">{escape(project.name[:18])}</text>')
    shapes += [_bar(spell, x, result) for spell in _joined(diary.spells)[:MAX_DRAWN]]
    shapes += off  # over the bars: a job goes on when the computer is back
    for end in diary.finishes:
        if end.at > end.deadline:
            where = f'cx="{x(end.at):.1f}" cy="{ROW * end.project + ROW / 2:.1f}"'
            shapes.append(f'<circle class="mark" {where} r="4"><title>job {end.number} late</title></circle>')
    step = 6.0 * HOUR if high - low <= 2.0 * DAY else DAY * max(1, round((high - low) / DAY / 10))
    for at in (n * step for n in range(int(low // step) + 1, math.ceil(high / step))):
        when = _clock(at) if at % DAY else f"day {at / DAY:.0f}"
        shapes.append(f'<text x="{x(at):.1f}" y="{height - 8}" text-anchor="middle">{when}</text>')
    label = "Which project's jobs run when"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'


def _legend(diary: Diary) -> str:
    said = ["Grey: the computer is off. A red dot is a job that ends after its deadline."]
    if any(spell.edf for spell in diary.spells):
        said.append("What is darker runs because of its deadline, not because it is its project's turn.")
    if len(_joined(diary.spells)) > MAX_DRAWN:
        said.append(f"Only the first {MAX_DRAWN} bars are drawn; choose a shorter window.")
    return " ".join(said)


def _joined(spells: Sequence[Spell]) -> list[Spell]:
    """Return the spells, with adjacent ones of one job joined."""
    joined: list[Spell] = []
    ends: dict[tuple[int, int, int], Spell] = {}
    for spell in sorted(spells, key=lambda s: s.start):
        key = (spell.project, spell.number, spell.slot)
        last = ends.get(key)
        if last is not None and spell.start - last.end < 1.0 and spell.edf == last.edf:
            last.end = spell.end
            continue
        ends[key] = mine = replace(spell)
        joined.append(mine)
    return joined


def _bar(spell: Spell, place: Callable[[float], float], result: RunResult) -> str:
    devices = max(1, result.scenario.host.ncpus)
    thickness = max(2.0, (ROW - 6) / devices)
    y = ROW * spell.project + 3 + thickness * (spell.slot % devices)
    hue = (210 + 137.5 * spell.project) % 320 + 20  # away from the red of what is late
    start, end = place(spell.start), place(spell.end)
    tip = f"job {spell.number}{', in order of deadlines' if spell.edf else ''}"
    return (
        f'<rect x="{start:.1f}" y="{y:.1f}" width="{max(0.5, end - start):.1f}" height="{thickness:.1f}"'
        f' fill="hsl({hue:.0f} 55% {38 if spell.edf else 55}%)"><title>{tip}</title></rect>'
    )


def _decisions(diary: Diary) -> str:
    if not diary.decisions:
        return "<p>Nothing was decided in this time: the computer was off.</p>"
    parts: list[str] = []
    for day, found in groupby(diary.decisions, key=lambda decision: int(decision[0] // DAY)):
        each = list(found)
        opened = " open" if not parts else ""
        parts.append(f"<details{opened}><summary>Day {day}: {several(len(each), 'decision')}</summary><ol>")
        parts += [
            f"<li><time>{_clock(at)}</time><span class='kind'>{escape(KINDS.get(kind, kind))}</span>{escape(text)}</li>"
            for at, kind, text in each
        ]
        parts.append("</ol></details>")
    if diary.left_out:
        parts.append(f"<p>{diary.left_out} more are left out; choose a shorter window.</p>")
    return "".join(parts)


def _clock(at: float) -> str:
    minutes = int(at % DAY // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
