"""Writes the export for BOINC statistics sites.

Element order, indentation and number formats are those of a real export (server 8.3.0).  Where that one breaks the rules of
XML (names in ``tables.xml`` unescaped, UTF-8 bytes as one reference each), this one keeps them: a lenient reader takes both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from cobblestone.domain.exports import (
    BadgeHolder,
    Deletion,
    Enumeration,
    ExportedHost,
    ExportedTable,
    ExportedTeam,
    ExportedUser,
    ExportFormat,
    ExportOrder,
    ExportSummary,
)
from cobblestone.wire.text.writer import escape, line_text

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'

#: Names of the documents' outermost elements.
ROOTS: Mapping[ExportedTable, str] = {
    ExportedTable.USER: "users",
    ExportedTable.USER_DELETED: "users_deleted",
    ExportedTable.HOST: "hosts",
    ExportedTable.HOST_DELETED: "hosts_deleted",
    ExportedTable.TEAM: "teams",
    ExportedTable.BADGE_USER: "badge_users",
    ExportedTable.BADGE_TEAM: "badge_teams",
    ExportedTable.BADGE_HOST: "badge_hosts",
}


def write_head(table: ExportedTable) -> str:
    """Return the start of a file of rows."""
    return f"{DECLARATION}<{ROOTS[table]}>\n"


def write_tail(table: ExportedTable) -> str:
    """Return the end of a file of rows."""
    return f"</{ROOTS[table]}>\n"


def _finite(*numbers: float) -> tuple[float, ...]:
    """Return numbers that a reader accepts: an invalid or implausibly large one becomes 0."""
    # One sum tells for all of them: a row with such a number is rare.
    if math.isfinite(sum(numbers)):
        return numbers
    return tuple(number if abs(number) <= 1e100 else 0.0 for number in numbers)


def _optional(name: str, text: str) -> str:
    return f" <{name}>{line_text(text)}</{name}>\n" if text else ""


def _not_indented(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>\n" if text else ""


# Templates in the style of C: one operation fills in all numbers, for millions of rows.
_USER = """<user>
 <id>%d</id>
 <name>%s</name>
 <create_time>%d</create_time>
 <total_credit>%f</total_credit>
 <expavg_credit>%f</expavg_credit>
 <expavg_time>%f</expavg_time>
 <cpid>%s</cpid>
%s%s%s%s</user>
"""


def write_user(user: ExportedUser) -> str:
    """Return a user."""
    recent = user.credit.recent
    numbers = _finite(user.create_time, user.credit.total, recent.value, recent.time)
    return _USER % (
        user.id,
        line_text(user.name),
        *numbers,
        line_text(user.cpid),
        _optional("country", user.country),
        _optional("url", user.url),
        "" if user.team_id is None else f" <teamid>{user.team_id}</teamid>\n",
        " <has_profile/>\n" if user.has_profile else "",
    )


_HOST = """<host>
    <id>%d</id>
    <userid>%d</userid>
    <total_credit>%f</total_credit>
    <expavg_credit>%f</expavg_credit>
    <expavg_time>%f</expavg_time>
    <p_vendor>%s</p_vendor>
    <p_model>%s</p_model>
    <os_name>%s</os_name>
    <os_version>%s</os_version>
    <misc><![CDATA[%s]]></misc>
  <create_time>%d</create_time>
  <rpc_time>%d</rpc_time>
  <timezone>%d</timezone>
  <ncpus>%d</ncpus>
  <p_fpops>%f</p_fpops>
  <p_iops>%f</p_iops>
  <p_membw>%f</p_membw>
  <m_nbytes>%f</m_nbytes>
  <m_cache>%f</m_cache>
  <m_swap>%f</m_swap>
  <d_total>%f</d_total>
  <d_free>%f</d_free>
  <n_bwup>%f</n_bwup>
  <n_bwdown>%f</n_bwdown>
  <avg_turnaround>%f</avg_turnaround>
  <credit_per_cpu_sec>0.000000</credit_per_cpu_sec>
  <host_cpid>%s</host_cpid>
</host>
"""


_MEASURED: Callable[[object], tuple[float, ...]] = attrgetter(
    "timezone", "p_ncpus", "p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "m_swap", "d_total", "d_free", "n_bwup",
    "n_bwdown",
)  # fmt: skip


def write_host(host: ExportedHost) -> str:
    """Return a host, with its details.  ``credit_per_cpu_sec`` is a figure of old credit systems: always 0."""
    recent, about = host.credit.recent, host.hardware
    credit = _finite(host.credit.total, recent.value, recent.time)
    numbers = _finite(host.create_time, host.rpc_time, *_MEASURED(about), host.avg_turnaround)
    return _HOST % (
        host.id,
        host.user_id,
        *credit,
        line_text(about.p_vendor),
        line_text(about.p_model),
        line_text(about.os_name),
        line_text(about.os_version),
        _misc(host),
        *numbers,
        line_text(host.host_cpid),
    )


def _misc(host: ExportedHost) -> str:
    """Return the data without an element of its own, as JSON for CDATA: the GPUs."""
    gpus = host.hardware.coprocessors
    if not gpus:
        return ""
    coprocs = [{"type": gpu.type, "name": gpu.name, "count": gpu.count} for gpu in gpus]
    # JSON may write any character by its number, so the end of the CDATA section need not occur in it.
    text = json.dumps({"coprocs": coprocs}, separators=(",", ":"))
    return text.replace("]]>", "]]\\u003e").replace("\x7f", "")


_TEAM = """<team>
 <id>%d</id>
 <type>%d</type>
 <name>%s</name>
 <userid>%d</userid>
 <total_credit>%f</total_credit>
 <expavg_credit>%f</expavg_credit>
 <expavg_time>%f</expavg_time>
  <founder_name>%s</founder_name>
 <create_time>%d</create_time>
%s%s%s <country>%s</country>
</team>
"""


def write_team(team: ExportedTeam) -> str:
    """Return a team."""
    recent = team.credit.recent
    *credit, created = _finite(team.credit.total, recent.value, recent.time, team.create_time)
    return _TEAM % (
        team.id,
        team.type,
        line_text(team.name),
        team.founder_id or 0,
        *credit,
        line_text(team.founder_name),
        created,
        _optional("url", team.url),
        _not_indented("name_html", team.name_html),
        _not_indented("description", team.description),
        line_text(team.country),
    )


def write_user_deletion(deletion: Deletion) -> str:
    """Return a user to be forgotten."""
    return f"<user>\n    <id>{deletion.id}</id>\n    <cpid>{line_text(deletion.cpid)}</cpid>\n</user>\n"


def write_host_deletion(deletion: Deletion) -> str:
    """Return a host to be forgotten."""
    cpid = line_text(deletion.cpid)
    return f"<host>\n    <id>{deletion.id}</id>\n    <host_cpid>{cpid}</host_cpid>\n</host>\n"


def write_badge_holder(table: ExportedTable, holder: BadgeHolder) -> str:
    """Return the owner of a badge."""
    owner = table.removeprefix("badge_")
    return (
        f" <{table}>\n    <{owner}_id>{holder.owner_id}</{owner}_id>\n    <badge_id>{holder.badge_id}</badge_id>\n"
        f"    <create_time>{holder.create_time:.0f}</create_time>\n </{table}>\n"
    )


def write_tables(summary: ExportSummary) -> str:
    """Return ``tables.xml``: counts, apps and badges."""
    applications = "".join(
        f"        <application>\n            <name>{line_text(name)}</name>\n        </application>\n"
        for name in summary.applications
    )
    badges = "".join(
        f"       <badge>\n           <id>{badge.id}</id>\n           <name>{line_text(badge.name)}</name>\n"
        f"           <title>{line_text(badge.title)}</title>\n"
        f"           <image_url>{line_text(badge.image_url)}</image_url>\n       </badge>\n"
        for badge in summary.badges
    )
    return (
        f"{DECLARATION}<tables>\n"
        f"    <update_time>{summary.update_time:.0f}</update_time>\n"
        f"    <nusers_total>{summary.n_users}</nusers_total>\n"
        f"    <nteams_total>{summary.n_teams}</nteams_total>\n"
        f"    <nhosts_total>{summary.n_hosts}</nhosts_total>\n"
        f"    <nusers_deleted_total>{summary.n_users_deleted}</nusers_deleted_total>\n"
        f"    <nhosts_deleted_total>{summary.n_hosts_deleted}</nhosts_deleted_total>\n"
        f"    <total_credit>{_finite(summary.total_credit)[0]:f}</total_credit>\n"
        f"    <applications>\n{applications}    </applications>\n"
        f"    <badges>\n{badges}    </badges>\n</tables>\n"
    )


def write_specification(passes: Iterable[Enumeration]) -> str:
    """Return ``db_dump.xml``, which lists the files: one enumeration for each file of XML."""
    return (
        "<boinc_db_dump_spec>\n"
        + "".join(
            _enumeration(one, kind)
            for one in passes
            for kind in one.formats
            if kind is not ExportFormat.PARQUET
            and not one.table.startswith("badge_")  # the family has no word for them
        )
        + "</boinc_db_dump_spec>\n"
    )


def _enumeration(one: Enumeration, kind: ExportFormat) -> str:
    packed = kind is ExportFormat.GZIP
    # The family's readers add .gz to the name; a plain file has its whole name here.
    name = one.stem if packed else kind.file_name(one.stem)
    sort = (
        f"        <sort>{one.order}</sort>\n"
        if one.order is not ExportOrder.ID or one.records_per_file
        else ""
    )
    compression = "            <compression>gzip</compression>\n" if packed else ""
    records = (
        f"            <recs_per_file>{one.records_per_file}</recs_per_file>\n" if one.records_per_file else ""
    )
    detail = (
        "            <detail/>\n" if one.table in (ExportedTable.HOST, ExportedTable.HOST_DELETED) else ""
    )
    return (
        f"    <enumeration>\n        <table>{one.table}</table>\n        <filename>{name}</filename>\n{sort}"
        f"        <output>\n{records}{compression}{detail}        </output>\n    </enumeration>\n"
    )
