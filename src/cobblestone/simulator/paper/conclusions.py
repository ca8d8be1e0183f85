"""Which of the paper's claims hold according to the runs, and effects in the runs that the paper does not mention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from cobblestone.simulator.paper.cells import BASE, METRICS, Cell, figures, other_mode
from cobblestone.simulator.paper.claims import (
    CLAIMS,
    EQUAL,
    NOW,
    PRINTED,
    THEN,
    ClaimSetting,
    PaperClaim,
    Part,
)
from cobblestone.simulator.paper.figures import (
    LABELS,
    ClaimFinding,
    ClaimOutcome,
    Results,
    Term,
    all_of,
    paired,
)
from cobblestone.simulator.paper.golden import golden
from cobblestone.simulator.report.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A claim of the paper, the verdict of the runs, and the figures."""

    figure: int
    statement: str
    verdict: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Effect:
    """A significant difference between two policies, at a point that no claim of the paper covers."""

    figure: int
    policies: str
    x: float
    metric: str
    then: Estimate | None
    now: Estimate


def needed_cells() -> dict[str, Cell]:
    """Return the cells, by key, that the claims need."""
    return {
        cell.key: cell
        for claim in CLAIMS
        for world in _worlds(claim)
        for part in claim.parts
        for term in part.terms(world)
        for cell in (term.cell, term.less)
        if cell is not None
    }


def draw_conclusions(results: Results) -> list[Conclusion]:
    """Judge each claim, with the faults of 2007 and without them."""
    known = _golden_runs()
    return [_judge(claim, results, known) for claim in CLAIMS]


def _worlds(claim: PaperClaim) -> tuple[ClaimSetting, ...]:
    return (THEN, NOW, PRINTED) if claim.of_mixes else (THEN, NOW)


def _judge(claim: PaperClaim, results: Results, known: Results) -> Conclusion:
    if claim.settled is not None:
        outcome = claim.settled()
        verdict = {ClaimFinding.TRUE: "holds", ClaimFinding.FALSE: "does not hold"}.get(
            outcome.finding, "no matter for a simulation"
        )
        return Conclusion(claim.figure, claim.sentence, verdict, outcome.evidence)
    findings: dict[ClaimSetting, ClaimFinding] = {}
    parts: dict[ClaimSetting, list[ClaimOutcome]] = {}
    for world in _worlds(claim):
        parts[world] = [
            part.judge(part.need, results, part.terms(world), part.metric) for part in claim.parts
        ]
        findings[world] = all_of(outcome.finding for outcome in parts[world])
    then_code = [_by_the_code_of_2007(part, known) for part in claim.parts]
    verdict = _verdict(
        findings, all_of(o.finding for o in then_code if o.finding is not ClaimFinding.NOT_RUN)
    )
    lines = [
        _evidence(part, {w: parts[w][k] for w in parts}, then_code[k]) for k, part in enumerate(claim.parts)
    ]
    return Conclusion(
        claim.figure, claim.sentence, verdict, ". ".join([*lines, claim.note] if claim.note else lines)
    )


def _verdict(findings: dict[ClaimSetting, ClaimFinding], code: ClaimFinding) -> str:
    """Return the findings in words."""
    then, now = findings[THEN], findings[NOW]
    printed = findings.get(PRINTED, then)
    if ClaimFinding.NOT_RUN in (then, now):
        return "not run"
    if then is now is ClaimFinding.TRUE:
        return (
            "holds"
            if printed is not ClaimFinding.FALSE
            else "holds with the tight base bound, not with the printed one"
        )
    if then is now is ClaimFinding.FALSE:
        return "false, by the code of 2007 too" if code is ClaimFinding.FALSE else "does not hold"
    if then is ClaimFinding.TRUE and now is ClaimFinding.FALSE:
        return "came from a fault"
    if then is ClaimFinding.FALSE and now is ClaimFinding.TRUE:
        return "holds without the faults only"
    words = {
        ClaimFinding.TRUE: "holds",
        ClaimFinding.FALSE: "does not hold",
        ClaimFinding.UNDECIDED: "undecided",
    }
    if then is now:
        return "undecided"
    return f"undecided: {words[then]} with the faults, {words[now]} without"


def _evidence(part: Part, outcomes: dict[ClaimSetting, ClaimOutcome], code: ClaimOutcome) -> str:
    shown = [f"{part.measure}. With the faults {outcomes[THEN].evidence}, without {outcomes[NOW].evidence}"]
    if PRINTED in outcomes and outcomes[PRINTED].evidence:
        shown.append(f"printed base bound {outcomes[PRINTED].evidence}")
    if code.evidence:
        shown.append(f"code of 2007 {code.evidence}")
    return "; ".join(shown)


def _golden_runs() -> dict[str, list[dict[str, float]]]:
    """Return the known figures of the code of 2007 as runs; twice each, since they are exact."""
    found: dict[str, dict[str, float]] = {}
    for item in golden():
        found.setdefault(item.cell.key, {})[item.metric] = item.value
    return {key: [values, values] for key, values in found.items()}


def _by_the_code_of_2007(part: Part, known: Results) -> ClaimOutcome:
    """Judge a part by the known figures, if there are any."""
    terms = [
        t
        for t in part.terms(ClaimSetting("literal"))
        if all(part.metric in known.get(c.key, [{}])[0] for c in (t.cell, t.less) if c is not None)
    ]
    if not terms:
        return ClaimOutcome(ClaimFinding.NOT_RUN, "")
    finding, evidence = part.judge(part.need, known, terms, part.metric)
    return ClaimOutcome(finding, evidence.replace(" ±0.000", ""))


def unmentioned(results: Results) -> list[Effect]:
    """Return the differences between the policies of a figure that are surely larger than :data:`EQUAL` without the
    faults, at points of which no sentence speaks.
    """
    spoken = {
        (part.metric, cell.key)
        for claim in CLAIMS
        for part in claim.parts
        for term in part.terms(NOW)
        for cell in (term.cell, term.less)
        if cell is not None
    }
    found: list[Effect] = []
    for figure, policy, x, other, base in _pairs():
        for metric in METRICS:
            if (metric, other.key) in spoken and (metric, base.key) in spoken:
                continue
            now = paired(results, [Term(x, base, other)], metric)
            if now is None or now.count < 2 or abs(now.mean) - now.half_width < EQUAL:
                continue
            before = Term(x, other_mode(base, "compatible"), other_mode(other, "compatible"))
            then = paired(results, [before], metric)
            found.append(Effect(figure, f"{BASE} less {policy}", x, metric, then, now))
    return found


def _pairs() -> Iterator[tuple[int, str, float, Cell, Cell]]:
    """Yield figure, other policy, point and both cells, for the figures that compare with the paper's policy."""
    for figure in figures("corrected"):
        curves = {curve.label: curve for curve in figure.curves}
        base = curves.pop(BASE, None)
        for label, curve in curves.items() if base is not None else ():
            for (x, other), (_, mine) in zip(curve.points, base.points if base else (), strict=True):
                yield figure.number, label, x, other, mine


def conclusions(results: Results) -> str:
    """Return claims and unmentioned effects as two sections of the report."""
    rows = "".join(
        f"<tr><td>{c.figure or ''}</td><td>{escape(c.statement)}</td><td><b>{escape(c.verdict)}</b></td>"
        f"<td>{escape(c.evidence)}</td></tr>"
        for c in draw_conclusions(results)
    )
    head = "<tr><th>Fig.</th><th>The paper</th><th>Verdict</th><th>Criterion and figures</th></tr>"
    note = (
        "<p>Differences are taken seed by seed, since both policies meet the same world; ± is the 95 % interval. What cannot be"
        " told from 0, or from the limit that is named, by the whole interval is <em>undecided</em>.</p>"
    )
    return (
        f"<h2>The paper's sentences</h2>{note}<div class='wide'><table>{head}{rows}</table></div>"
        f"{_effects(unmentioned(results))}"
    )


def _effects(effects: list[Effect]) -> str:
    if not effects:
        return ""
    rows = "".join(
        f"<tr><td>{e.figure}</td><td>{escape(e.policies)}</td><td class='n'>{e.x:g}</td><td>{LABELS[e.metric]}</td>"
        f"<td class='n'>{escape(str(e.then)) if e.then else ''}</td><td class='n'>{escape(str(e.now))}</td></tr>"
        for e in effects
    )
    head = "<tr><th>Fig.</th><th>Difference</th><th>at</th><th>Metric</th><th>with the faults</th><th>without</th></tr>"
    return (
        f"<h2>What the paper does not mention</h2><p>Differences surely larger than {EQUAL:g} without the faults of 2007, of"
        f" which no sentence speaks.</p><div class='wide'><table>{head}{rows}</table></div>"
    )
