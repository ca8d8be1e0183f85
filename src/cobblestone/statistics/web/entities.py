"""The page of one user, computer, team or other entity; comparison, milestones, and signature pictures."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from html import escape

from PIL import Image, ImageDraw, ImageFont
from starlette.responses import Response

from cobblestone.policy.credit import history
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import wording
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.site import PageError
from cobblestone.service.pages.static_files import SECURITY_HEADERS
from cobblestone.statistics.store.build import JOINED
from cobblestone.statistics.store.history import DAY_SECONDS
from cobblestone.statistics.store.queries import DayFigures, Entity, PublishedFile, added_up
from cobblestone.statistics.store.rows import WITH_BADGES
from cobblestone.statistics.web.curves import Curves, curves
from cobblestone.statistics.web.overview import COLUMNS, as_row
from cobblestone.statistics.web.site import StatisticsSite, StatisticsVisit
from cobblestone.wire.project.pages import RssChannel, RssItem, write_rss

#: What belongs to an entity of a kind.
CHILDREN = {"user": "host", "team": "user"}
MOST_COMPARED = 4
#: Projects of a person whose curves are drawn, the largest first.
MOST_HISTORIES = 60


class View:
    """The content of the page of one entity."""

    def __init__(self, published: PublishedFile, entity: Entity) -> None:
        members = published.members(entity)
        child = CHILDREN.get(entity.kind, "")
        owner = "team" if entity.kind == "user" else "user"
        project = published.projects.get(entity.project) or published.by_name.get(
            entity.key if entity.kind == "project" else ""
        )
        self.entity = entity
        self.titles = {number: each.title for number, each in published.projects.items()}  #: by number
        self.project = self.titles.get(entity.project, "")  #: title; empty: all projects
        self.members = members if not entity.project and entity.kind in JOINED else ()
        self.children = published.children(child, entity) if child else ()
        self.badges = published.badges(entity) if entity.kind in WITH_BADGES else ()
        self.parent = published.find(owner, entity.project, entity.parent) if entity.parent else None
        #: what it belongs to over all projects
        self.whole = published.find(entity.kind, 0, entity.whole) if entity.whole else None
        #: with the days until this entity passes them, or they it
        self.neighbours = [(each, _days_between(entity, each)) for each in published.neighbours(entity)]
        self.histories = histories_of(published, entity, members)  #: by title of a project
        self.milestone = history.next_milestone(entity.total, entity.recent)
        self.flops = project.flops(entity.recent) if project is not None else None
        self.time = published.time
        self.until = published.until  #: the last day of the histories
        self.step = published.step  #: of the histories, in days

    @property
    def milestones(self) -> list[history.Reached]:
        """Return round amounts that were passed since the site knows it, newest first."""
        found = [
            history.Reached(credit=amount, time=after.day * DAY_SECONDS)
            for before, after in itertools.pairwise(added_up(self.histories.values()))
            for amount in history.milestones_between(before.total + (after.brought or 0.0), after.total)
        ]
        return found[::-1]

    def plot(self) -> Curves | None:
        """Return the chart of its history, by project."""
        return curves(self.histories, until=self.until, step=self.step)


def histories_of(
    published: PublishedFile, entity: Entity, members: Sequence[Entity]
) -> dict[str, Sequence[DayFigures]]:
    """Return the histories of an entity's accounts, by title of the project."""
    return {
        published.projects[member.project].title if member.project else entity.name: published.history(
            member, as_member=not entity.project
        )
        for member in members[:MOST_HISTORIES]
    }


def _moment(day: float) -> str:
    """Return a day of history as data: a date, with the time if the site keeps steps shorter than days."""
    text = wording.iso(day * DAY_SECONDS)
    return text[:10] if day == int(day) else text


def _days_between(entity: Entity, other: Entity) -> float | None:
    """Return the days until the one behind overtakes the one ahead; None: never."""
    ahead, behind = (other, entity) if other.rank_total < entity.rank_total else (entity, other)
    return history.days_until_overtaken(behind.total, behind.recent, ahead.total, ahead.recent)


class EntityPages(Pages[StatisticsSite]):
    """Pages of single entities."""

    @shows("/compare/{kind}")
    async def compare(self, visit: StatisticsVisit) -> Response:
        """Show several entities of one kind side by side."""
        keys = [key for key in visit.fields.get("keys", "").split(",") if key]
        if not 1 <= len(keys) <= MOST_COMPARED:
            text = _("The address of this page must have one to %(most)d keys: ?keys=a,b")
            raise PageError(404, _("Not complete"), text % {"most": MOST_COMPARED})

        def read(published: PublishedFile) -> tuple[list[tuple[Entity, list[DayFigures]]], float, float]:
            found = [visit.entity(published, key) for key in dict.fromkeys(keys)]
            days = [
                added_up(histories_of(published, each, published.members(each)).values()) for each in found
            ]
            return list(zip(found, days, strict=True)), published.until, published.step

        seen, until, step = await visit.read(read)
        if visit.format != "html":
            columns = ("day", "key", "name", "total_credit")
            rows = [(_moment(day.day), of.key, of.name, day.total) for of, days in seen for day in days]
            return visit.data(f"{visit.kind}-compared", columns, rows)
        named = {f"{entity.name} (#{entity.rank_total})": days for entity, days in seen}
        plot = curves(named, until=until, step=step, stacked=False)
        return visit.show(
            "compare.html",
            rows=[entity for entity, _days in seen],
            plot=plot,
            kind=visit.kind,
            query=visit.request.url.query,
        )

    @shows("/{kind}/{key}")
    async def entity(self, visit: StatisticsVisit) -> Response:
        """Show everything about one entity."""
        key = visit.request.path_params["key"]
        seen = await visit.read(lambda published: View(published, visit.entity(published, key)))
        if visit.format != "html" and visit.fields.get("of") == "children":
            return visit.data(
                f"{visit.kind}-{key}-list", COLUMNS, [as_row(visit, each) for each in seen.children]
            )
        if visit.format != "html" and visit.fields.get("of") == "badges":
            rows = [
                (seen.titles[badge.project], badge.title, badge.image, wording.iso(badge.since))
                for badge in seen.badges
            ]
            return visit.data(f"{visit.kind}-{key}-badges", ("project", "title", "image", "since"), rows)
        if visit.format != "html":
            columns = ("day", "project", "total_credit", "recent_credit")
            rows = [
                (_moment(day.day), title, day.total, day.recent)
                for title, days in seen.histories.items()
                for day in days
            ]
            return visit.data(f"{visit.kind}-{key}", columns, rows)
        return visit.show(
            "entity.html",
            seen=seen,
            entity=seen.entity,
            plot=seen.plot(),
            kind=visit.kind,
            where=f"?project={visit.fields['project']}" if visit.fields.get("project") else "",
        )

    @shows("/milestones/{kind}/{key}.rss")
    async def feed(self, visit: StatisticsVisit) -> Response:
        """Return milestones as RSS."""
        key = visit.request.path_params["key"]
        seen = await visit.read(lambda published: View(published, visit.entity(published, key)))
        project = visit.fields.get("project", "")
        link = visit.ctx.url(f"{visit.kind}/{key}" + (f"?project={project}" if project else ""))
        channel = RssChannel(
            title=_("Milestones of %(name)s") % {"name": seen.entity.name},
            link=link,
            description=visit.ctx.settings.site.name,
            items=tuple(
                RssItem(
                    title=_("%(name)s: %(amount)s credit")
                    % {"name": seen.entity.name, "amount": wording.count(reached.credit)},
                    guid=f"{link}#{reached.credit}",
                    link=link,
                    published=reached.time,
                    description="",
                )
                for reached in seen.milestones
            ),
        )
        return Response(write_rss(channel, built=seen.time), media_type="application/rss+xml")


WIDTH, HEIGHT = 420, 92
_BACK, _EDGE, _INK, _PALE = "#1f2a37", "#3f5068", "#ffffff", "#b8c4d4"
#: Where lines of text begin: from the left, the base line from above, size, colour.
_LINES = ((16, 28, 18, _INK), (16, 52, 14, _PALE), (16, 76, 14, _PALE))
MOST_LETTERS = 42


class SignaturePages(Pages[StatisticsSite]):
    """Serves signature pictures."""

    @shows("/signature/{kind}/{key}.{ending}")
    async def picture(self, visit: StatisticsVisit) -> Response:
        """Return the picture of one user, team or computer."""
        key, ending = visit.request.path_params["key"], visit.request.path_params["ending"]
        entity = await visit.read(lambda published: visit.entity(published, key))
        lines = [
            entity.name or _("Computer"),
            _("%(total)s credit in total, %(recent)s per day")
            % {"total": wording.credit(entity.total), "recent": wording.credit(entity.recent)},
            _("rank %(rank)s · %(site)s")
            % {"rank": wording.count(entity.rank_total), "site": visit.ctx.settings.site.name},
        ]
        lines = [line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 1] + "…" for line in lines]
        headers = {
            **SECURITY_HEADERS,
            "Cache-Control": "public, max-age=3600",
            "Access-Control-Allow-Origin": "*",
        }
        if ending == "png":
            return Response(png(lines), media_type="image/png", headers=headers)
        return Response(svg(lines), media_type="image/svg+xml", headers=headers)


def svg(lines: Sequence[str]) -> str:
    """Draw lines of text on a card."""
    texts = "".join(
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(line)}</text>'
        for line, (x, y, size, colour) in zip(lines, _LINES, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' role="img" aria-label="{escape(", ".join(lines))}"><rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}"'
        f' rx="8" fill="{_BACK}" stroke="{_EDGE}"/><g font-family="system-ui,sans-serif">{texts}</g></svg>'
    )


def png(lines: Sequence[str]) -> bytes:
    """Draw the same as pixels; letters missing from the built-in font become boxes."""
    image = Image.new("RGBA", (WIDTH, HEIGHT), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((0, 0, WIDTH - 1, HEIGHT - 1), 8, fill=_BACK, outline=_EDGE)
    for line, (x, y, size, colour) in zip(lines, _LINES, strict=True):
        draw.text((x, y), line, fill=colour, font=ImageFont.load_default(size), anchor="ls")
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()
