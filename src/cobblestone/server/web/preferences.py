"""Pages for computing preferences and project preferences, with a default set and one for each venue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from starlette.responses import Response

from cobblestone.domain.apps import App
from cobblestone.domain.computing import PREFERENCES, Number, Preference
from cobblestone.domain.people import KEYWORDS, Keyword, User
from cobblestone.ops.aside import read_aside
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import number_problem, parse_number, plain_number
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import not_found
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import account_changes, users
from cobblestone.wire.project import preferences as wire

T = TypeVar("T")

VENUE_NAMES: Mapping[str, str] = {
    "": N_("Default"),
    "home": N_("Home"),
    "work": N_("Work"),
    "school": N_("School"),
}
MAX_FIELDS = 60 + len(KEYWORDS) + wire.MAX_APPS

TYPES: Mapping[str, str] = {
    "no_cpu": N_("Processor (CPU)"),
    "no_cuda": N_("NVIDIA graphics"),
    "no_ati": N_("AMD graphics"),
    "no_intel_gpu": N_("Intel graphics"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """One preference as the form asks for it."""

    name: str
    label: str
    hint: str = ""


QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    N_("When to compute"): (
        Question("run_on_batteries", N_("Also while the computer runs on battery")),
        Question("run_if_user_active", N_("Also while the computer is in use")),
        Question("run_gpu_if_user_active", N_("Use graphics processors also while the computer is in use")),
        Question("idle_time_to_run", N_("Counts as in use after the last input for (minutes)")),
        Question("suspend_if_no_recent_input", N_("Stop when the computer has not been used for (minutes)"), N_("0: never")),
        Question("suspend_cpu_usage", N_("Pause while other programs use more than (per cent of the CPU)"), N_("0: never")),
        Question("start_hour", N_("Compute from (hour of the day)"), N_("0 to 24; same hour twice: all day")),
        Question("end_hour", N_("Until (hour of the day)")),
    ),
    N_("Processor"): (
        Question("max_ncpus_pct", N_("Use at most (per cent of the CPUs)")),
        Question("cpu_usage_limit", N_("Use at most (per cent of CPU time)"), N_("less is cooler and quieter")),
        Question("cpu_scheduling_period_minutes", N_("Switch between tasks every (minutes)")),
        Question("disk_interval", N_("Save progress at most every (seconds)")),
        Question("leave_apps_in_memory", N_("Keep paused tasks in memory")),
    ),
    N_("Work buffer"): (
        Question("work_buf_min_days", N_("Store at least (days of work)")),
        Question("work_buf_additional_days", N_("Store in addition up to (days of work)")),
    ),
    N_("Disk and memory"): (
        Question("disk_max_used_gb", N_("Use at most (GB of disk)"), N_("0: no limit")),
        Question("disk_min_free_gb", N_("Leave free at least (GB of disk)")),
        Question("disk_max_used_pct", N_("Use at most (per cent of the disk)")),
        Question("ram_max_used_busy_pct", N_("Use at most (per cent of memory), computer in use")),
        Question("ram_max_used_idle_pct", N_("Use at most (per cent of memory), computer not in use")),
        Question("vm_max_used_pct", N_("Use at most (per cent of the swap space)")),
    ),
    N_("Network"): (
        Question("max_bytes_sec_up", N_("Upload at most (bytes per second)"), N_("0: no limit")),
        Question("max_bytes_sec_down", N_("Download at most (bytes per second)"), N_("0: no limit")),
        Question("daily_xfer_limit_mb", N_("Transfer at most (MB)"), N_("0: no limit")),
        Question("daily_xfer_period_days", N_("In a period of (days)")),
        Question("net_start_hour", N_("Use the network from (hour of the day)"), N_("0 to 24; same hour twice: all day")),
        Question("net_end_hour", N_("Until (hour of the day)")),
        Question("network_wifi_only", N_("Use the network only over Wi-Fi"), N_("on phones and tablets")),
    ),
}  # fmt: skip
_FIELDS = {item.name: item for item in PREFERENCES}


class PreferencePages(Pages[ProjectSite]):
    """Preferences of a volunteer."""

    @shows("/prefs_computing.php", methods=BOTH, own=True)
    async def computing(self, visit: ProjectVisit, user: User) -> Response:
        """Show when and how much the volunteer's computers compute, for all projects."""
        venue = _venue(visit)
        sets = await read_aside(wire.read_computing, user.global_prefs)
        typed, problems = _as_typed(sets.get(venue, sets[""])), dict[str, str]()
        if visit.request.method == "POST":
            typed = form = await visit.form(max_fields=MAX_FIELDS)
            problems = {} if "reset" in form else _computing_problems(form)
            if not problems:
                await self._store_computing(visit, user, venue, form)
                return visit.go_on("prefs_computing.php", venue=venue, done="saved")
        return visit.show(
            "prefs_computing.html",
            questions=QUESTIONS,
            fields=_FIELDS,
            typed=typed,
            problems=problems,
            venue=venue,
            venues=VENUE_NAMES,
            existing=set(sets),
        )

    async def _store_computing(
        self, visit: ProjectVisit, user: User, venue: str, form: Mapping[str, str]
    ) -> None:
        now, url = visit.ctx.clock(), visit.ctx.master_url

        def store(tx: Transaction) -> None:
            fresh = users.user_by_id(tx, user.id)  # a client may have brought newer ones meanwhile
            # Clients take the newer one: never give a text of an earlier second than the one that they may have.
            mod_time = max(now, users.global_preferences_time(tx, user.id) + 1)
            sets = wire.read_computing(fresh.global_prefs if fresh else "")
            if "reset" in form:
                sets = _without(sets, venue, wire.DEFAULT_COMPUTING)
            else:
                kept = sets.get(venue, wire.ComputingSet({})).kept
                sets[venue] = wire.ComputingSet({item.name: _value(item, form) for item in PREFERENCES}, kept)
            text = wire.write_computing(sets, source_project=url, mod_time=mod_time)
            users.set_global_preferences(tx, user.id, text, mod_time)

        await visit.write(store)

    @shows("/prefs_project.php", methods=BOTH, own=True)
    async def project(self, visit: ProjectVisit, user: User) -> Response:
        """Show what this project may use and send."""
        venue = _venue(visit)
        sets = await read_aside(wire.read_project, user.project_prefs)
        found = await visit.read(lambda db: apps.apps_in_use(db)[: wire.MAX_APPS])
        shown, problems = sets.get(venue, sets[""]), dict[str, str]()
        typed = _project_typed(shown)
        if visit.request.method == "POST":
            typed = form = await visit.form(max_fields=MAX_FIELDS)
            reset = "reset" in form
            problems = {} if reset else _project_problems(form, found)
            shown = wire.ProjectSet() if reset else _project_set(form, found, shown)
            if not problems:
                await self._store_project(visit, user, venue, None if reset else shown)
                return visit.go_on("prefs_project.php", venue=venue, done="saved")
        return visit.show(
            "prefs_project.html",
            apps=found,
            keywords=_keywords(found),
            chosen=shown,
            typed=typed,
            types=TYPES,
            problems=problems,
            venue=venue,
            venues=VENUE_NAMES,
            existing=set(sets),
        )

    async def _store_project(
        self, visit: ProjectVisit, user: User, venue: str, chosen: wire.ProjectSet | None
    ) -> None:
        def store(tx: Transaction) -> None:
            fresh = users.user_by_id(tx, user.id)
            sets = wire.read_project(fresh.project_prefs if fresh else "")
            sets = _without(sets, venue, wire.ProjectSet()) if chosen is None else {**sets, venue: chosen}
            account_changes.set_project_preferences(tx, user.id, wire.write_project(sets))

        await visit.write(store)


def _venue(visit: ProjectVisit) -> str:
    venue = visit.fields.get("venue", "")
    if venue not in ("", *wire.VENUES):
        raise not_found(_("venue %(name)s") % {"name": repr(venue[:20])})
    return venue


def _without(sets: dict[str, T], venue: str, default: T) -> dict[str, T]:
    if not venue:
        return {**sets, "": default}
    return {name: item for name, item in sets.items() if name != venue}


# -- computing ----------------------------------------------------------------------------------------


def _as_typed(item: wire.ComputingSet) -> dict[str, str]:
    typed: dict[str, str] = {}
    for name, value in item.values.items():
        if _FIELDS[name].is_switch:
            if value:
                typed[name] = "1"
        else:
            typed[name] = plain_number(value)
    return typed


def _value(item: Preference, form: Mapping[str, str]) -> Number:
    if item.is_switch:
        return item.name in form
    return parse_number(form[item.name]) or 0.0


def _computing_problems(form: Mapping[str, str]) -> dict[str, str]:
    problems: dict[str, str] = {}
    for item in PREFERENCES:
        if not item.is_switch and (problem := number_problem(form.get(item.name, ""), item.low, item.high)):
            problems[item.name] = problem
    if problems:
        return problems

    def number(name: str) -> float:
        return parse_number(form[name]) or 0.0

    if number("daily_xfer_limit_mb") > 0 and number("daily_xfer_period_days") <= 0:
        problems["daily_xfer_period_days"] = _("If you set a limit, also enter the number of days.")
    if number("ram_max_used_idle_pct") < number("ram_max_used_busy_pct"):
        problems["ram_max_used_idle_pct"] = _("This should not be less than the value for a computer in use.")
    pause = number("suspend_if_no_recent_input")
    if 0 < pause <= number("idle_time_to_run") and "run_if_user_active" not in form:
        problems["suspend_if_no_recent_input"] = _(
            "With these values the computer would never compute: it starts later after the last input than it stops."
        )
    return problems


# -- project --------------------------------------------------------------------------------------------


def _project_typed(item: wire.ProjectSet) -> dict[str, str]:
    return {
        "resource_share": plain_number(item.resource_share),
        "max_jobs": str(item.max_jobs),
        "max_cpus": str(item.max_cpus),
    }


def _project_problems(form: Mapping[str, str], found: list[App]) -> dict[str, str]:
    bounds = {"resource_share": wire.MAX_SHARE, "max_jobs": wire.MAX_LIMIT, "max_cpus": wire.MAX_LIMIT}
    problems = {
        name: problem
        for name, high in bounds.items()
        if (problem := number_problem(form.get(name, ""), 0, high))
    }
    if not any(name in form for name in ("use_cpu", "use_cuda", "use_ati", "use_intel_gpu")):
        problems["types"] = _("If no device is selected, your computers get no work. Select at least one.")
    if found and not any(f"app_{app.id}" in form for app in found) and "others" not in form:
        problems["apps"] = _("If no app is selected, your computers get no work. Select at least one.")
    return problems


def _keywords(found: list[App]) -> list[Keyword]:
    """Return the keywords that jobs of the project have, in the order of the family's list."""
    used = {number for app in found for number in app.dispatch.keywords}
    return [each for each in KEYWORDS.values() if each.id in used]


def _project_set(form: Mapping[str, str], found: list[App], before: wire.ProjectSet) -> wire.ProjectSet:
    chosen = frozenset(int(app.id) for app in found if f"app_{app.id}" in form)
    asked = {each.id: form.get(f"keyword_{each.id}", "") for each in _keywords(found)}
    everything = len(chosen) == len(found)  # all, and those to come: the family writes no list then
    return wire.ProjectSet(
        resource_share=parse_number(form.get("resource_share", "")) or 0.0,
        app_ids=frozenset() if everything else chosen,
        allow_non_preferred_apps="others" in form,
        allow_beta_work="beta" in form,
        no_cpu="use_cpu" not in form,
        no_cuda="use_cuda" not in form,
        no_ati="use_ati" not in form,
        no_intel_gpu="use_intel_gpu" not in form,
        max_jobs=int(parse_number(form.get("max_jobs", "")) or 0),
        max_cpus=int(parse_number(form.get("max_cpus", "")) or 0),
        keywords_yes=before.keywords_yes.difference(asked) | {id_ for id_ in asked if asked[id_] == "yes"},
        keywords_no=before.keywords_no.difference(asked) | {id_ for id_ in asked if asked[id_] == "no"},
        kept=before.kept,
    )
