"""The graphics cards of the computers that called in the last month, and what apps would gain by versions for more of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cobblestone.domain.apps import GPU_MAKERS, PlanClass
from cobblestone.domain.hosts import Coprocessor
from cobblestone.domain.values import value
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts

ACTIVE_SECONDS = 30 * 86400.0
MAX_HOSTS = 1000
MAX_CARDS = 20
_NAMES = {"intel": "Intel"}
LEAST_SHARE = 0.05  #: of the speed, from which on a version is worth a word


@value(kw_only=True)
class Gain:
    """What a version for the cards of one maker would add to an app."""

    app: str
    maker: str  #: as ``--gpu`` calls it
    maker_name: str  #: for people
    computers: int
    share: float  #: of the peak speed of all cards, 0 to 1


def recent_cards(db: Database, *, now: float) -> list[Coprocessor]:
    """Return the cards of the latest computers that called in the last month; those of one type and computer are one entry."""
    return [
        card
        for host in hosts.recent_hosts(db, limit=MAX_HOSTS)
        if host.rpc_time >= now - ACTIVE_SECONDS
        for card in host.description.coprocessors
    ]


def kinds_of(cards: Sequence[Coprocessor]) -> list[tuple[Coprocessor, int]]:
    """Return the kinds of cards and the number of computers; the usual ones first.

    Of a kind are those with one name and the same memory, to the gigabyte.
    """
    kinds = (Coprocessor(type=each.type, name=each.name, ram=round(each.ram / 1e9) * 1e9) for each in cards)
    return Counter(kinds).most_common(MAX_CARDS)


def gains(db: Database, cards: Sequence[Coprocessor], classes: Mapping[str, PlanClass]) -> Iterator[Gain]:
    """Yield what each app that computes on GPUs would gain by a version for the makers that it leaves out."""
    speed = {
        kind: sum(each.count * each.peak_flops for each in cards if each.type == kind)
        for kind in GPU_MAKERS.values()
    }
    total = sum(speed.values())
    for app in apps.apps_in_use(db):
        versions = apps.list_versions(db, app.id)
        served = {classes[each.plan_class].gpu_type for each in versions if each.plan_class in classes} - {""}
        for maker, kind in GPU_MAKERS.items():
            share = speed[kind] / total if total > 0 else 0.0
            if served and kind not in served and share >= LEAST_SHARE:
                n, name = sum(each.type == kind for each in cards), _NAMES.get(maker, maker.upper())
                yield Gain(app=app.name, maker=maker, maker_name=name, computers=n, share=share)
