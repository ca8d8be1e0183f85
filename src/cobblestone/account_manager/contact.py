"""One contact of a computer: its report is counted, projects are chosen for it, and the reply is made.

All of it is one transaction; the rules are those of `cobblestone.policy.account_manager`.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from cobblestone.account_manager import model
from cobblestone.account_manager.core.context import FEED, ManagerContext
from cobblestone.account_manager.store import accounts, granted, hosts, ledger
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import RecentAverage
from cobblestone.domain.values import form_of
from cobblestone.policy.account_manager import accounting
from cobblestone.policy.account_manager import selection as choosing
from cobblestone.policy.credit.history import day_of
from cobblestone.policy.credit.rac import decayed
from cobblestone.store.engine.database import Transaction
from cobblestone.wire.client import account_manager as wire
from cobblestone.wire.client.records import EstimatedCredit
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure
from cobblestone.wire.project.preferences import UserKeywords, write_global_preferences

MAIN_SHARE = 100.0
#: Clients of this version and later know the sums of an account; 7.20.5 notes each of them in its log as unknown.
TELLS_SUMS_FROM = 80_000


EARLY_CONTACTS = 3
#: A new computer's first contacts come early: one has no totals, the next sets the mark, and then people see a figure.
EARLY_SECONDS = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """Sender, address and time of a contact."""

    account: model.ManagerAccount
    request: wire.ReceivedRequest
    address_block: str
    now: float


def answer_contact(
    tx: Transaction, ctx: ManagerContext, contact: Contact, rng: random.Random
) -> wire.ManagerReply:
    """Carry out one contact; return the answer for the client.

    Raises:
        WebRpcFailure: the account has too many computers.
    """
    tx.lock("account", [contact.account.id])  # two computers of a person at two processes take turns
    host = _host(tx, ctx, contact)
    before = hosts.host_projects(tx, host.id) if host.contact_time else {}
    reported = _known_projects(ctx, contact.request)
    counted = _count(tx, ctx, contact, host, before, reported)
    at_projects = _credited(tx, contact, counted)
    candidates = _candidates(ctx, at_projects, contact.now)
    computer = _computer(contact.request, reported)
    selection = _select(candidates, contact.account, computer, rng)
    expected = choosing.expected_work(
        selection, _rates(contact.request, host.facts), ctx.settings.contacts.repeat_seconds
    )
    records = _records(before, counted, reported, expected)
    # Booked now, so that who calls next sees it; a write that is undone leaves some seconds of who is next wrong.
    change = {id_: expected.get(id_, 0.0) - each.expected for id_, each in before.items()}
    ctx.projects.book(
        {entry.project_id: entry.counted.credit for entry in counted.entries},
        {**expected, **change},
        _served(reported),
        now=contact.now,
    )
    host = replace(
        host, hidden=False, meter=counted.meter, why=_why(selection, candidates), contact_time=contact.now
    )
    hosts.put_contact(tx, host)
    changed = [each for id_, each in records.items() if each != before.get(id_)]
    hosts.put_host_projects(tx, host.id, changed)
    ledger.add_entries(
        tx, counted.entries, host_id=host.id, account_id=contact.account.id, day=day_of(contact.now)
    )
    if ctx.settings.accounting.policy == "jobs":
        granted.list_jobs(tx, contact.account.id, _known_jobs(ctx, contact.request), now=contact.now)
    orders = _orders(ctx, contact, selection, reported, records, at_projects)
    return _reply(ctx, contact.account, host, orders)


# -- who it is ------------------------------------------------------------------------------------------


def host_facts(request: wire.ReceivedRequest, address_block: str) -> model.ComputerFacts:
    """Return a computer's description of itself; of several GPUs the kind that is fastest in total."""
    info = request.host
    gpu = max(request.coprocs, key=lambda each: each.count * each.peak_flops, default=None)
    return form_of(
        model.ComputerFacts,
        info,
        host_cpid=request.host_cpid or info.host_cpid,
        domain_name=request.domain_name or info.domain_name,
        address_block=address_block,
        ncpus=info.p_ncpus,
        gpu_model=gpu.name if gpu else "",
        ngpus=sum(each.count for each in request.coprocs),
        gpu_flops=gpu.peak_flops if gpu else 0.0,
        client_version=request.client_version,
    )


#: What an element about the computer tells of its facts.
_TOLD_BY: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("p_vendor", "p_model", "p_fpops", "os_name", "os_version")},
    "p_ncpus": ("ncpus",),
    "coprocs": ("gpu_model", "ngpus", "gpu_flops"),
}


def _host(tx: Transaction, ctx: ManagerContext, contact: Contact) -> model.ManagedHost:
    """Return the computer: by the value that we gave it, else by the client's own id, else a new one."""
    facts = host_facts(contact.request, contact.address_block)
    account_id, opaque = contact.account.id, contact.request.opaque
    number = _number(opaque.get("host_id", ""))
    known = None if number is None else hosts.calling_host(tx, number)
    if known is None or known.account_id != account_id or known.host_key != opaque.get("host_key", ""):
        known = hosts.host_like(tx, account_id, facts)
    if known is not None:
        unsaid = {
            name: getattr(known.facts, name)
            for element in contact.request.unsaid
            for name in _TOLD_BY.get(element, ())
        }
        return replace(known, facts=replace(facts, **unsaid))  # absent is not zero
    limits = ctx.settings.contacts
    if hosts.count_hosts(tx, account_id) >= limits.max_hosts or (
        hosts.count_hosts(tx, account_id, since=contact.now - accounting.DAY) >= limits.max_new_hosts
    ):
        text = "Your account has too many new computers. Try again tomorrow."
        raise WebRpcFailure(WebRpcError.GENERIC, text)
    new = model.ManagedHost(
        id=0, account_id=account_id, host_key=secrets.token_hex(16), facts=facts, create_time=contact.now
    )
    return replace(new, id=hosts.add_host(tx, new))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 17 else None


def _known_projects(ctx: ManagerContext, request: wire.ReceivedRequest) -> dict[int, wire.ReportedProject]:
    """Return the reports about known projects, regardless of the spelling of their addresses; the first of several."""
    found: dict[int, wire.ReportedProject] = {}
    for reported in request.projects:
        if (project := _project_at(ctx, reported.url)) is not None:
            found.setdefault(project.id, reported)
    return found


def _known_jobs(ctx: ManagerContext, request: wire.ReceivedRequest) -> list[tuple[int, str]]:
    """Return the jobs listed by a client, of projects that are asked for granted credit."""
    listed = [(_project_at(ctx, url), name) for url, name in request.jobs]
    return [(project.id, name) for project, name in listed if project is not None]


def _project_at(ctx: ManagerContext, url: str) -> model.ManagedProject | None:
    try:
        return ctx.projects.by_key.get(wire.key_of_address(url))
    except RemoteProtocolError:
        return None


# -- what it did ----------------------------------------------------------------------------------------


def _count(
    tx: Transaction,
    ctx: ManagerContext,
    contact: Contact,
    host: model.ManagedHost,
    before: Mapping[int, model.HostProject],
    reported: Mapping[int, wire.ReportedProject],
) -> accounting.ContactAccounting:
    settings, facts, account_id, now = ctx.settings.contacts, host.facts, contact.account.id, contact.now
    peers = ctx.peers
    limits = accounting.HostLimits(
        ncpus=facts.ncpus,
        ngpus=facts.ngpus,
        cpu_flops=accounting.speed_limit(
            peers.speeds(tx, facts.p_model, account_id, gpu=False, now=now), settings.cpu_flops
        ),
        gpu_flops=accounting.speed_limit(
            peers.speeds(tx, facts.gpu_model, account_id, gpu=True, now=now), settings.gpu_flops
        )
        if facts.ngpus
        else 0.0,
        n_young=peers.n_young(tx, facts, now=now) if now - host.create_time < accounting.YOUNG_SECONDS else 1,
    )
    return accounting.count_contact(
        host.meter,
        {id_: each.record for id_, each in before.items()},
        {id_: accounting.Amounts(*each.totals) if each.totals else None for id_, each in reported.items()},
        limits,
        now=now,
        answer=_number(contact.request.opaque.get("contact", "")) or 0,
    )


def _credited(
    tx: Transaction, contact: Contact, counted: accounting.ContactAccounting
) -> dict[int, model.ProjectAccount]:
    """Add what is counted to the person's sums; return the accounts at projects after that."""
    at_projects = accounts.project_accounts(tx, contact.account.id)
    changed = [
        accounts.with_credit(
            at_projects.get(entry.project_id) or model.ProjectAccount(project_id=entry.project_id),
            entry.counted.credit,
            now=contact.now,
        )
        for entry in counted.entries
    ]
    if changed:
        accounts.put_credit(tx, contact.account.id, changed)
    return at_projects | {each.project_id: each for each in changed}


def _records(
    before: Mapping[int, model.HostProject],
    counted: accounting.ContactAccounting,
    reported: Mapping[int, wire.ReportedProject],
    expected: Mapping[int, float],
) -> dict[int, model.HostProject]:
    """Return the records of the computer at each project."""
    ids = before.keys() | reported.keys() | expected.keys()
    known = {id_: before.get(id_) or model.HostProject(project_id=id_) for id_ in ids}
    return {
        id_: replace(
            each,
            project_host_id=reported[id_].host_id if id_ in reported else each.project_host_id,
            record=counted.records.get(id_) or each.record,
            expected=expected.get(id_, 0.0),
        )
        for id_, each in known.items()
    }


def _served(reported: Mapping[int, wire.ReportedProject]) -> dict[tuple[int, str], bool]:
    """Return which projects had work, by device, as far as this computer can tell."""
    found: dict[tuple[int, str], bool] = {}
    for id_, each in reported.items():
        if not each.attached_by_manager:
            continue
        found.update({(id_, device): False for device in each.no_work})
        if each.not_started_seconds + each.in_progress_seconds > 0:
            found.update({(id_, device): True for device in ("CPU",) if device not in each.no_work})
    return found


# -- what it shall do -----------------------------------------------------------------------------------


def _candidates(
    ctx: ManagerContext, at_projects: Mapping[int, model.ProjectAccount], now: float
) -> list[choosing.CandidateProject]:
    return [
        form_of(
            choosing.CandidateProject,
            project,
            name=project.name or project.url,
            closed=_closed(project, at_projects.get(project.id)),
            dryness=ctx.projects.dryness(project.id),
            work=ctx.projects.balances[project.id].at(now),
        )
        for project in ctx.projects.projects
    ]


def _closed(project: model.ManagedProject, account: model.ProjectAccount | None) -> Reason | None:
    """Return why no one, or not this person, can be sent to a project now."""
    if project.stopped:
        return reason("stopped", "The operator of this account manager has disabled this project.")
    if project.problem:
        return reason("problem", "It cannot be used at the moment: {problem}", problem=project.problem)
    if project.shared_key or (account is not None and account.weak_key):
        return None
    if account is not None and account.problem:
        return reason("no_account", "You have no account there yet: {problem}", problem=account.problem)
    return reason("account_soon", "Your account there is being created.")


def _computer(
    request: wire.ReceivedRequest, reported: Mapping[int, wire.ReportedProject]
) -> choosing.SelectedFor:
    gpus = tuple(dict.fromkeys(each.type for each in request.coprocs))
    in_vain = {
        (id_, device)
        for id_, each in reported.items()
        for device in (each.no_work if not each.rpc_failures else ("CPU", *gpus))
    }
    return choosing.SelectedFor(
        platforms=frozenset(request.platforms),
        devices=("CPU", *gpus),
        virtualbox=bool(request.host.virtualbox_version),
        in_vain=frozenset(in_vain),
    )


def _select(
    candidates: list[choosing.CandidateProject],
    account: model.ManagerAccount,
    computer: choosing.SelectedFor,
    rng: random.Random,
) -> choosing.Selection:
    choices = account.choices
    wishes = choosing.Wishes(
        yes=frozenset(choices.yes),
        no=frozenset(choices.no),
        kept_out=frozenset(choices.kept_out),
        kept_out_devices=frozenset(choices.kept_out_devices),
    )
    if choices.mode == "classic":
        return choosing.select_by_hand(candidates, wishes, computer, choices.shares)
    return choosing.select_projects(candidates, wishes, computer, jitter=[rng.random() for _ in candidates])


def _rates(request: wire.ReceivedRequest, facts: model.ComputerFacts) -> dict[str, float]:
    """Return estimated credit per second, by device."""
    rates = {"CPU": min(facts.ncpus, accounting.MAX_CPUS) * facts.p_fpops * accounting.CREDIT_PER_FLOP}
    for each in request.coprocs:
        rates[each.type] = min(each.count, accounting.MAX_GPUS) * each.peak_flops * accounting.CREDIT_PER_FLOP
    return rates


def _why(
    selection: choosing.Selection, candidates: list[choosing.CandidateProject]
) -> tuple[model.ProjectWhy, ...]:
    by_id = {each.id: each for each in candidates}
    of_shares = sum(each.share for each in candidates if each.closed is None)
    chosen = [
        model.ProjectWhy(
            project_id=choice.project_id,
            chosen=True,
            reasons=tuple(
                each.as_json()
                for each in choosing.reasons_of(choice, by_id[choice.project_id], of_shares=of_shares)
            ),
        )
        for choice in selection.chosen
    ]
    refused = [
        model.ProjectWhy(
            project_id=id_,
            chosen=False,
            reasons=(_constant_reason(each.code, each.sentence) if not each.values else each.as_json(),),
        )
        for id_, each in selection.refused.items()
    ]
    return (*chosen, *refused)


@lru_cache(maxsize=256)
def _constant_reason(code: str, sentence: str) -> dict[str, object]:
    return reason(code, sentence).as_json()


# -- what it is told ------------------------------------------------------------------------------------


def _orders(
    ctx: ManagerContext,
    contact: Contact,
    selection: choosing.Selection,
    reported: Mapping[int, wire.ReportedProject],
    records: Mapping[int, model.HostProject],
    at_projects: Mapping[int, model.ProjectAccount],
) -> list[wire.ManagedAccount]:
    choices = contact.account.choices
    projects = {project.id: project for project in ctx.projects.projects}
    devices = ("CPU", *dict.fromkeys(each.type for each in contact.request.coprocs))
    orders: list[wire.ManagedAccount] = []
    told = contact.request.client_version >= TELLS_SUMS_FROM
    for choice in selection.chosen:
        project, record = projects[choice.project_id], records.get(choice.project_id)
        account = at_projects.get(project.id) or model.ProjectAccount(project_id=project.id)
        allowed = choice.devices if choice.reserve else choice.covers.keys()
        share = 0.0 if choice.reserve else MAIN_SHARE
        order = wire.ManagedAccount(
            url=project.url,
            url_signature=project.url_signature,
            authenticator=project.shared_key or account.weak_key,
            resource_share=choices.shares.get(project.id, 0.0) if choices.mode == "classic" else share,
            suspend=project.id in choices.suspended,
            no_resources=tuple(device for device in devices if device not in allowed),
        )
        orders.append(_with_sums(order, account, record, contact.now) if told else order)
    chosen = {choice.project_id for choice in selection.chosen}
    for id_, each in reported.items():
        if each.attached_by_manager and id_ not in chosen:
            orders.append(
                wire.ManagedAccount(
                    url=projects[id_].url,
                    url_signature=projects[id_].url_signature,
                    dont_request_more_work=True,
                    detach_when_done=True,
                )
            )
    return orders


def _with_sums(
    order: wire.ManagedAccount, account: model.ProjectAccount, record: model.HostProject | None, now: float
) -> wire.ManagedAccount:
    """Add the person's totals there, from which a newly attached client continues."""
    totals = (record and record.record.reported) or accounting.NOTHING
    return replace(
        order,
        credit=form_of(EstimatedCredit, totals),
        njobs_success=int(totals.njobs_success),
        njobs_error=int(totals.njobs_error),
        user_avg_ec=decayed(RecentAverage(account.recent, account.recent_time), now),
        user_total_ec=account.total,
    )


def _reply(
    ctx: ManagerContext,
    account: model.ManagerAccount,
    host: model.ManagedHost,
    orders: list[wire.ManagedAccount],
) -> wire.ManagerReply:
    choices = account.choices
    contacts = host.meter.contacts if host.meter else 0
    repeat = ctx.settings.contacts.repeat_seconds
    changed = int(choices.changed or account.create_time)
    return wire.ManagerReply(
        name=ctx.settings.manager.name,
        authenticator=account.weak_authenticator,
        signing_key=ctx.signing_key,
        repeat_sec=min(repeat, EARLY_SECONDS) if contacts <= EARLY_CONTACTS else repeat,
        dynamic=True,
        send_tasks="all" if ctx.settings.accounting.policy == "jobs" else "",
        user_name=account.name,
        team_name=choices.team_name,
        global_preferences=_preferences(
            choices.preset, tuple(sorted(choices.venue_presets.items())), changed, ctx.master_url
        ),
        host_venue=host.venue,
        feeds=(ctx.url(FEED),),
        keywords=UserKeywords(choices.yes, choices.no),
        opaque=f"<host_id>{host.id}</host_id>\n<host_key>{host.host_key}</host_key>\n<contact>{contacts}</contact>",
        accounts=tuple(orders),
    )


@lru_cache(maxsize=4096)
def _preferences(preset: str, venues: tuple[tuple[str, str], ...], changed: int, source: str) -> str:
    """Return the preferences of a preset, and of others for single venues, in the form for clients."""
    return write_global_preferences(
        {"source_project": source, "mod_time": float(changed), **choosing.PRESETS[preset]},
        venues={venue: choosing.PRESETS[own] for venue, own in venues},
    )
