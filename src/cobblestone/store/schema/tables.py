"""Tables.

Hot rows are kept short: texts of results stand in ``result_text``, descriptions of hosts and files in one JSON column.
Times are Unix seconds.  Every partial index serves one query of a daemon or of the scheduler (`cobblestone.store.work`).
"""
# length: all tables stand side by side, as a reader of the database wants them.

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from cobblestone.domain.work import FileDeleteState
from cobblestone.store.work import steps
from cobblestone.store.work.rows import TARGETED

metadata = sa.MetaData()

INTEGER: sa.types.TypeEngine[Any] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
REAL: sa.types.TypeEngine[Any] = sa.Double[float]().with_variant(sa.REAL(), "sqlite")


# PostgreSQL.  Rows that change leave room in their pages for the next version of each, which then needs no new index entries if
# no indexed column changed; and what is dead is swept up when it is a fiftieth of a table, not a fifth.
_SWEPT_EARLY = {"autovacuum_vacuum_scale_factor": 0.02, "autovacuum_analyze_scale_factor": 0.05}
_CHANGED_OFTEN = {"fillfactor": 80, **_SWEPT_EARLY}
_CHANGED_BY_EACH_CALL = {"fillfactor": 70, **_SWEPT_EARLY}


def _table(
    name: str, *items: sa.schema.SchemaItem, storage: Mapping[str, float] = MappingProxyType({})
) -> sa.Table:
    has_id = any(isinstance(item, sa.Column) and item.name == "id" for item in items)
    # ids are never used twice, since the ledger and the archive keep them for ever
    return sa.Table(
        name, metadata, *items, sqlite_strict=True, sqlite_autoincrement=has_id, postgresql_with=dict(storage)
    )


def _id() -> sa.Column[Any]:
    return sa.Column("id", INTEGER, primary_key=True)


def _text(name: str, default: str = "", *, unique: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default, unique=unique or None)


def _int(name: str, default: int = 0) -> sa.Column[Any]:
    return sa.Column(name, INTEGER, nullable=False, server_default=sa.text(str(default)))


def _real(name: str, default: float = 0) -> sa.Column[Any]:
    return sa.Column(name, REAL, nullable=False, server_default=sa.text(str(default)))


def _maybe_int(name: str) -> sa.Column[Any]:
    return sa.Column(name, INTEGER)


def _maybe_real(name: str) -> sa.Column[Any]:
    return sa.Column(name, REAL)


def _credit() -> tuple[sa.Column[Any], ...]:
    return (_real("total_credit"), _real("expavg_credit"), _real("expavg_time"))


def _average(name: str) -> tuple[sa.Column[Any], ...]:
    """Return the columns of a running mean with its variance (see `cobblestone.domain.statistics.RunningAverage`)."""
    return (_int(f"{name}_n"), _real(f"{name}_avg"), _real(f"{name}_var"), _real(f"{name}_q"))


def _key(name: str) -> sa.Column[Any]:
    return sa.Column(name, INTEGER, primary_key=True, autoincrement=False)


def _text_key(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, primary_key=True)


def _partial(name: str, *columns: str | sa.TextClause, where: str, unique: bool = False) -> sa.Index:
    """Return an index of the rows that fulfil a condition."""
    condition = sa.text(where)
    return sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


# Who stands in top lists and has a rank there.  The columns of the conditions are in the indexes too: counting ranks then
# needs no look at the rows.
_SHOWN_USERS = "erased_time IS NULL"
_SHOWN_HOSTS = "merged_into IS NULL AND removed_time IS NULL"

meta = _table("meta", _text_key("key"), _text("value"))

user = _table(
    "user_account",
    _id(),
    _text("name"),
    _text("email_addr", unique=True),
    _text("authenticator", unique=True),
    _text("weak_authenticator", unique=True),
    _text("passwd_hash"),
    _text("cross_project_id"),
    _real("create_time"),
    _maybe_int("team_id"),
    _text("venue"),
    _text("country"),
    _text("url"),
    _text("global_prefs"),
    _real("global_prefs_time"),
    _text("project_prefs"),
    _int("show_hosts", 1),
    _text("role"),  # empty: volunteer; operator
    _text("blocked_reason"),  # not empty: its computers get no work
    _int("send_email", 1),  # about computers that fail
    _text("language"),  # of pages and mails; empty: the browser's
    _text("totp_secret"),  # sealed with the project's secret; empty: no second factor
    _int("totp_step"),  # the last one-time password that was used
    _int("session_epoch"),  # raised to end all sessions
    _maybe_real("erase_time"),  # when the account is to be erased
    _maybe_real("erased_time"),
    *_credit(),
    _maybe_real("email_verified_time"),  # when a link that was sent to the address was opened
    _int("team_messages", 1),  # messages of the team's founder
    sa.Index("user_by_team", "team_id"),
    _partial("user_by_credit", "expavg_credit", "id", "erased_time", where=_SHOWN_USERS),
    _partial("user_by_total", "total_credit", "id", "erased_time", where=_SHOWN_USERS),
    _partial("user_to_erase", "erase_time", where="erase_time IS NOT NULL AND erased_time IS NULL"),
    storage=_CHANGED_OFTEN,
)

team = _table(
    "team",
    _id(),
    _text("name"),
    _text("name_lc", unique=True),
    _maybe_int("founder_id"),
    _real("create_time"),
    _text("description"),
    _text("url"),
    _text("country"),
    _int("joinable", 1),
    *_credit(),
    sa.Index("team_by_credit", "expavg_credit", "id"),
    sa.Index("team_by_total", "total_credit", "id"),
)

host = _table(
    "host",
    _id(),
    _int("user_id"),
    _text("host_cpid"),
    _int("rpc_seqno"),
    _real("rpc_time"),
    _real("create_time"),
    _text("venue"),
    _text("domain_name"),
    _text("label"),  # the owner's own name for it
    _int("hidden"),  # by its owner, also when the others are shown
    _maybe_real("removed_time"),  # the owner removed it from the list; it comes back when it calls again
    _text("external_ip_addr"),
    _text("description", "{}"),
    _text("blocked_reason"),
    _text("trouble"),  # what apps of every platform lack there: a code and a fingerprint of the environment
    _real("trouble_time"),
    _maybe_int("merged_into"),
    *_credit(),
    sa.Index("host_by_cpid", "user_id", "host_cpid"),
    _partial("host_by_credit", "expavg_credit", "id", "merged_into", "removed_time", where=_SHOWN_HOSTS),
    _partial("host_by_total", "total_credit", "id", "merged_into", "removed_time", where=_SHOWN_HOSTS),
    _partial("host_merged", "merged_into", where="merged_into IS NOT NULL"),
    _partial("host_removed", "removed_time", where="removed_time IS NOT NULL"),
    storage=_CHANGED_BY_EACH_CALL,
)

app = _table(
    "app",
    _id(),
    _text("name", unique=True),
    _text("user_friendly_name"),
    _int("deprecated"),
    _int("beta"),
    _text("comparison", "{}"),
    _text("assimilator"),
    _text("credit_system"),
    _real("fixed_credit"),  # of a job that names no amount, under the system "fixed"
    _int("host_scale_check"),
    _int("partial_credit"),  # trickle messages bring provisional credit
    _real("credit_per_cpu_second"),  # published average where programs cannot count; 0: from the sums below
    _text("credit_function"),  # FILE.py:function, for the system "assigned"
    _real("min_avg_pfc", 1),
    _real("flops_scale", 1),
    _real("counted_benchmark_credit"),  # sums that flops_scale comes from
    _real("counted_credit"),
    _real("counted_cpu_seconds"),
    _int("counted_jobs"),
    _text("limits", "{}"),
    _text("rules", "{}"),
    _text("output_specs", "[]"),
    _text("dispatch", "{}"),
    _text("command", "[]"),  # the scientist's command line with placeholders, as JSON; [] for native programs
    _real("create_time"),
    _int("show_outputs"),  # volunteers see the answers that their computers found
)

app_version = _table(
    "app_version",
    _id(),
    _int("app_id"),
    _text("platform"),
    _int("version_num"),
    _text("plan_class"),
    _int("deprecated"),
    _int("beta"),
    _text("api_version"),
    _text("command_line"),
    _text("files", "[]"),
    _int("min_client_version"),
    _int("max_client_version"),
    _real("create_time"),
    _real("rollout_fraction", 1),  # part of the hosts that may get it
    _text("rollout_plan", "{}"),  # JSON: how that part grows (see policy/dispatch/rollout.py)
    *_average("pfc"),
    _real("pfc_scale"),  # 0: not known
    *_credit(),
    sa.UniqueConstraint("app_id", "platform", "version_num", "plan_class"),
)

file = _table(
    "file",
    _text_key("name"),
    _int("nbytes"),
    _text("md5"),
    _maybe_int("gzipped_nbytes"),
    _int("refs"),  # workunits and app versions that need it
    _real("touched_time"),  # last time that a client of the API said "I am about to refer to it"
    _partial("file_unused", "touched_time", where="refs <= 0"),
)

batch = _table(
    "batch",
    _id(),
    _text("name"),
    _int("app_id"),
    _maybe_int("token_id"),
    sa.Column("request_key", sa.Text, unique=True),  # makes a repeated submission harmless
    _int("state"),
    _real("create_time"),
    _maybe_real("complete_time"),
    _int("njobs"),
    _int("n_success"),
    _int("n_error"),
    _int("priority"),
    _real("fair_weight", 1),  # share of its submitter, divided by the batches that he had running
    _real("turn"),  # place in the queue of its last job
    _int("released_seq"),  # of a retired batch: up to where answers were released; -1: all
    _int("archived"),  # of a retired batch: none of its jobs is left here
    _partial("batch_to_archive", "id", where=steps.TO_ARCHIVE),
    _partial("batch_unfinished", "token_id", where=steps.OPEN_BATCH),
)

workunit = _table(
    "workunit",
    _id(),
    _text("name", unique=True),
    _int("app_id"),
    _maybe_int("batch_id"),
    _text("label"),  # the submitter's own name of the job
    _real("create_time"),
    _int("priority"),
    _text("command_line"),
    _text("input_files", "[]"),
    _text("output_specs", "[]"),
    _real("rsc_fpops_est"),
    _real("rsc_fpops_bound"),
    _real("rsc_memory_bound"),
    _real("rsc_disk_bound"),
    _real("rsc_bandwidth_bound"),
    _real("delay_bound"),
    _int("min_quorum"),
    _int("target_nresults"),
    _int("max_error_results"),
    _int("max_total_results"),
    _int("max_success_results"),
    _int("need_validate"),
    _maybe_int("canonical_result_id"),
    _real("canonical_credit"),
    _real("fixed_credit"),
    _maybe_real("transition_time"),
    _int("error_mask"),
    _int("assimilate_state"),
    _int("file_delete_state"),
    _int("hr_class"),
    _maybe_int("app_version_id"),
    _maybe_int("target_host_id"),
    _maybe_int("target_user_id"),
    _maybe_int("target_team_id"),
    _int("size_class", -1),
    _real("turn"),  # place in the queue among results of one priority
    _maybe_int("completed_seq"),  # position in the batch's list of finished jobs
    _maybe_real("completed_time"),
    _int("handler_failures"),  # times that the project's own function failed on it
    _real("retry_time"),  # do not try validation or assimilation again before
    _text("handler_problem"),  # what that function said last; empty: nothing is wrong
    _partial("wu_due", "transition_time", where="transition_time IS NOT NULL"),
    _partial("wu_validate", "id", where="need_validate = 1"),
    _partial("wu_assimilate", "id", where=steps.TO_ASSIMILATE),
    _partial("wu_delete", "id", where=steps.DELETABLE),
    _partial("wu_archive", "batch_id", "completed_time", where=steps.matching(FileDeleteState.DONE)),
    sa.Index("wu_by_batch", "batch_id", "completed_seq"),
    _partial("wu_targeted", "id", where=TARGETED),
    storage=_CHANGED_OFTEN,
)

result = _table(
    "result",
    _id(),
    _text("name", unique=True),
    _int("workunit_id"),
    _int("app_id"),
    _int("priority"),
    _real("turn"),
    _int("server_state", 2),
    _int("outcome"),
    _int("client_state"),
    _int("validate_state"),
    _int("file_delete_state"),
    _maybe_int("host_id"),
    _maybe_int("user_id"),
    _maybe_int("app_version_id"),
    _real("create_time"),
    _maybe_real("sent_time"),
    _maybe_real("report_deadline"),
    _maybe_real("received_time"),
    _real("cpu_time"),
    _real("elapsed_time"),
    _int("exit_status"),
    _real("claimed_credit"),
    _real("granted_credit"),
    _real("peak_flops"),
    _real("fpops_counted"),
    _real("intops_counted"),
    _int("outlier"),  # the validator asks to keep its run time out of statistics
    _real("trickle_seconds"),  # run time that trickle messages were credited for
    _maybe_real("told_remaining"),  # seconds that the client said it still needs, of a job that will be late
    _maybe_real("told_time"),  # when it said so
    _real("avg_ncpus"),  # processors that it was sent for; 0: not known
    _int("checks"),  # further results that check it
    sa.Index("result_by_workunit", "workunit_id", "user_id"),
    _partial("result_unsent", sa.text("priority DESC"), "turn", "id", where=steps.IS_UNSENT),
    _partial("result_in_progress", "host_id", where=steps.IS_IN_PROGRESS),
    sa.Index("result_by_host", "host_id", "id"),
    sa.Index("result_by_user", "user_id", "id"),
    sa.Index("result_by_app", "app_id"),
    _partial("result_delete", "id", where=steps.DELETABLE),
    storage=_CHANGED_OFTEN,
)

result_text = _table(
    "result_text",
    _key("result_id"),
    sa.Column("stderr", sa.LargeBinary),  # zlib
    _text("report", "{}"),  # JSON: reasons, peak memory and disk, counted FLOPs, files as reported
)

upload = _table(
    "upload",
    _text_key("name"),
    _int("result_id"),
    _int("nbytes"),
    _text("md5"),
    _int("gzipped"),
    sa.Column("data", sa.LargeBinary),  # small files; NULL: on disk, see files.py
    _real("time"),
    sa.Index("upload_by_result", "result_id"),
    storage=_SWEPT_EARLY,
)

host_app_version = _table(
    "host_app_version",
    _key("host_id"),
    _key("app_version_id"),
    _int("max_jobs_per_day"),
    _int("n_jobs_today"),
    _int("quota_day"),
    _int("consecutive_valid"),
    *_average("pfc"),
    *_average("et"),
    *_average("turnaround"),
    _real("error_rate", 0.1),
    _int("scale_probation", 1),
    _real("host_scale_time"),
    _int("bad_results"),
    storage=_CHANGED_BY_EACH_CALL,
)

credit_entry = _table(
    "credit_entry",
    _id(),
    _real("time"),
    _int("result_id"),
    _int("workunit_id"),
    _int("host_id"),
    _int("user_id"),
    _maybe_int("team_id"),
    _maybe_int("app_version_id"),
    _text("kind"),  # grant, correction, … see `cobblestone.store.credit.ledger`
    _text("system"),
    _real("claimed"),
    _real("granted"),
    _real("unit"),  # credit per GFLOPS-day
    _real("work_start"),
    _text("reasons", "[]"),
    _text("facts", "{}"),  # JSON: what the amount was computed from
    sa.Index("credit_by_result", "result_id"),
    sa.Index("credit_by_host", "host_id", "time"),
    sa.Index("credit_by_user", "user_id", "time"),
    _partial("credit_by_team", "team_id", "time", where="team_id IS NOT NULL"),
    # a result is granted exactly once; corrections are further entries
    _partial("credit_once", "result_id", unique=True, where="kind = 'grant'"),
)

# What the credit system "ledger" knows of an app (host 0, version 0), its versions (host 0), and versions on hosts.
ledger_record = _table(
    "ledger_record",
    _key("app_id"),
    _key("host_id"),
    _key("app_version_id"),
    _text_key("usage"),  # processors that a job uses
    _text("state", "{}"),  # JSON
    storage=_CHANGED_OFTEN,
)

# What happened under that system, in order: with it, every record and every amount can be computed again.
ledger_event = _table("ledger_event", _key("app_id"), _key("seq"), _real("time"), _text("facts", "{}"))

# Results whose credit is provisional: a failed check of their host takes it back.
escrow = _table(
    "escrow",
    _key("result_id"),
    _int("workunit_id"),
    _int("app_id"),
    _int("host_id"),
    _int("app_version_id"),
    _text("usage"),
    _int("user_id"),
    _real("price"),
    _int("audit"),  # computed again: 0 no, 1 asked for, 2 found right, 3 found wrong
    sa.Index("escrow_by_workunit", "workunit_id"),
    sa.Index("escrow_by_host", "host_id", "price"),
    sa.Index("escrow_by_user", "user_id", "price"),
    storage=_SWEPT_EARLY,
)

# When a new app version took over what a host had taught an earlier one: with the ledger, all that the means depend on.
credit_inheritance = _table(
    "credit_inheritance",
    _id(),
    _real("time"),
    _int("host_id"),
    _int("from_version_id"),
    _int("to_version_id"),
    _int("last_entry_id"),  # the newest ledger entry at that time
)

# When the daily task let averages decay that had not been touched: with the ledger, all that a recent average depends on.
credit_decay = _table(
    "credit_decay",
    _id(),
    _real("time"),
    _text("table_name"),
    _int("first_id"),
    _int("last_id"),
    _int("last_entry_id"),  # the newest ledger entry at that time
)

msg_from_host = _table(
    "msg_from_host",
    _id(),
    _int("host_id"),
    _text("result_name"),
    _text("variety"),
    _int("time"),
    _text("text"),
    _text("digest"),
    _real("receive_time"),
    _int("handled"),
    sa.UniqueConstraint("host_id", "result_name", "time", "digest"),
)

msg_to_host = _table(
    "msg_to_host",
    _id(),
    _int("host_id"),
    _text("result_name"),
    _text("text"),
    _real("create_time"),
    _maybe_real("sent_time"),
    _partial("msg_to_host_waiting", "host_id", where="sent_time IS NULL"),
)

news = _table("news", _id(), _text("title"), _text("text"), _real("time"))

api_token = _table(
    "api_token",
    _id(),
    _text("name"),
    _text("token_hash", unique=True),
    _maybe_int("user_id"),  # whose own data it opens; NULL: a token of the project
    _text("scopes"),  # space-separated: read submit manage account compute accounting
    _real("share", 1),  # of the computers, against other submitters
    _real("create_time"),
    _maybe_real("expire_time"),
    _maybe_real("revoke_time"),
    _maybe_int("host_id"),  # the browser that it belongs to
)

# Accounts whose credit an account manager is told, under names of its own.
told_account = _table(
    "told_account",
    _key("token_id"),
    _text_key("account"),
    sa.Column("user_id", INTEGER, nullable=False),
    _text("weak_authenticator"),  # that it showed: with another one it is told nothing any more
    _real("enrol_time"),
    sa.UniqueConstraint("token_id", "user_id"),
)

# Replies to creating requests, so that a repetition does not create a second thing.
api_reply = _table(
    "api_reply",
    _text_key("request_key"),
    _text("digest"),  # of the request's body
    _text("reply"),
    _real("expire_time"),
    sa.Index("api_reply_expired", "expire_time"),
)

# Who did what with the project; rows are only ever added.
audit_entry = _table(
    "audit_entry",
    _id(),
    _real("time"),
    _text("actor"),  # user:ID NAME, token:ID NAME, or system
    _text("origin"),  # web, api, command line, or server; and the address
    _text("action"),
    _text("target"),  # noun and id, such as "host 12"
    _text("before", "null"),  # JSON
    _text("after", "null"),
    sa.Index("audit_by_target", "target"),
)

# The state of the project every few minutes, for rates and small drawings.
project_sample = _table(
    "project_sample",
    sa.Column("time", REAL, primary_key=True),
    _text("figures", "{}"),  # JSON: name -> number
)

# The processes of the server that were heard of within a day.
server_process = _table(
    "server_process",
    _text_key("process_key"),
    _text("host"),
    _int("pid"),
    _text("roles"),  # separated by spaces
    _text("version"),
    _real("started"),
    _real("beat_time"),
    _int("ended"),
    _text("daemons", "[]"),  # JSON: name, state, last beat and last error of each
)

# Links and codes that work once: for a new password, a new address, or in place of the second factor.
one_time_code = _table(
    "one_time_code",
    _id(),
    _int("user_id"),
    _text("purpose"),
    _text("code_hash", unique=True),
    _text("payload"),
    _real("create_time"),
    _maybe_real("expire_time"),
    _maybe_real("used_time"),
    sa.Index("code_by_user", "user_id", "purpose"),
)

# What people agreed to, and took back: nothing is ever changed here, the last row of a kind holds.
consent = _table(
    "consent",
    _id(),
    _int("user_id"),
    _text("kind"),
    _int("agreed"),
    _real("time"),
    _text("source"),  # page or program where it was said
    sa.Index("consent_by_user", "user_id", "kind", "id"),
)

# Ids of erased accounts and their computers, by which statistics sites know whom to forget.
deletion = _table(
    "deletion",
    _text_key("owner"),  # user or host
    _key("owner_id"),
    _text("cpid"),
    _real("time"),
)

# Sessions whose owners logged out before their time: their cookies are worth nothing any more.
ended_session = _table(
    "ended_session",
    _text_key("session_hash"),
    _real("expire_time"),
    sa.Index("ended_session_expired", "expire_time"),
)

# Mails on their way out.
mail = _table(
    "mail",
    _id(),
    _real("create_time"),
    _text("recipient"),
    _text("subject"),
    _text("body"),
    _int("attempts"),
    _real("next_time"),
    _maybe_real("sent_time"),
    _text("error"),
    _partial("mail_waiting", "next_time", where="sent_time IS NULL"),
)

# Credit by app of users, hosts and teams: summed from the ledger by a daemon, for top lists.
app_credit = _table(
    "app_credit",
    _text_key("owner"),  # user, host or team
    _key("app_id"),
    _key("owner_id"),
    _int("n_results"),
    *_credit(),
    sa.Index("app_credit_by_total", "owner", "app_id", "total_credit"),
    sa.Index("app_credit_by_recent", "owner", "app_id", "expavg_credit"),
    sa.Index("app_credit_by_owner", "owner", "owner_id"),
    storage=_CHANGED_OFTEN,
)

code_sign_key = _table(
    "code_sign_key",
    _id(),
    _text("public_key"),  # text in the family's form, stripped
    _real("create_time"),
    _int("is_current"),
    _text("successor_signature"),  # the current key, signed with this older one
)


def _whose() -> tuple[sa.Column[Any], ...]:
    """Return key columns that name a user, host or team."""
    return (
        _text_key("owner"),  # user, host or team
        _key("owner_id"),
    )


# Credit since the first day, summed from the ledger by a daemon: days, of which old ones become weeks and spans of four weeks.
credit_day = _table(
    "credit_day",
    *_whose(),
    _key("day"),  # the first one, days since 1970 (UTC)
    _int("n_days", 1),
    _real("granted"),
    _int("n_results"),
    _real("total"),  # of all entries until then
    _int("total_results"),
    _real("expavg_credit"),
    _real("expavg_time"),
    sa.Index("credit_day_by_age", "n_days", "day"),
)

# What an app's jobs did on each day; kept for ever.
app_day = _table(
    "app_day",
    _key("app_id"),
    _key("day"),
    _int("n_success"),  # jobs done …
    _int("n_error"),  # … and given up
    _int("n_unsent"),  # tasks, when they were last counted on that day
    _int("n_in_progress"),
    _int("n_results"),  # credited
    _real("granted"),
    _int("n_hosts"),  # that were credited
)

# The last day on which a computer was credited for an app, so that the computers of a day are counted once.
app_host_day = _table("app_host_day", _key("app_id"), _key("host_id"), _int("last_day"))

# When users and teams had their first result (0) and reached round amounts of credit.
milestone = _table("milestone", *_whose(), _key("credit"), _real("time"))

badge = _table(
    "badge",
    _id(),
    _text("kind"),  # total, recent or rank
    _real("level"),  # credit, credit a day, or the best so many percent
    sa.UniqueConstraint("kind", "level"),
)

badge_owner = _table("badge_owner", *_whose(), _key("badge_id"), _real("create_time"))

# What volunteers say of themselves.
profile = _table(
    "profile",
    _key("user_id"),
    _text("text"),
    sa.Column("picture", sa.LargeBinary),  # made by us from what was sent
    _int("searchable"),  # by search engines
    _real("time"),
)

# What founders tell their teams.
team_message = _table(
    "team_message",
    _id(),
    _int("team_id"),
    _int("user_id"),
    _text("title"),
    _text("text"),
    _real("time"),
    sa.Index("team_message_by_team", "team_id", "id"),
)

# Files that computers were asked to keep for further jobs, while storage is counted.
kept_file = _table(
    "kept_file",
    _key("host_id"),
    _text_key("file_name"),
    _int("user_id"),
    _text("network"),  # that the computer called from: one file counts once in it
    _int("nbytes"),
    _int("listed"),  # the computer says that it has it
    _int("counted"),  # 1: counts; -1: counts for another computer of this account or network; 0: not decided
    sa.Index("kept_file_by_name", "file_name", "counted"),
    _partial("kept_file_to_count", "host_id", where="listed = 1 AND counted = 0"),
    storage=_SWEPT_EARLY,
)

# What each computer claims to keep, and the question that it was asked (see `cobblestone.policy.storage`).
host_storage = _table(
    "host_storage",
    _key("host_id"),
    _int("nbytes"),
    _real("seen"),
    _real("proven"),
    _real("claimed"),
    sa.Column("challenge", sa.Text),  # JSON
    _text("answer"),
    _real("answer_time"),
    _real("answer_claimed"),
    _partial("host_storage_answered", "host_id", where="answer <> ''"),
    storage=_CHANGED_BY_EACH_CALL,
)

# The ledger of what computers gave beside computing; rows are only ever added.
contribution_entry = _table(
    "contribution_entry",
    _id(),
    _real("time"),
    _text("kind"),  # storage: byte-days; received, sent: bytes
    _int("host_id"),
    _int("user_id"),
    _real("amount"),
    _real("work_start"),
    _text("facts", "{}"),  # JSON: what the amount was computed from
    sa.Index("contribution_by_host", "host_id", "id"),
    sa.Index("contribution_by_user", "user_id", "id"),
)

# Its sums and recent averages.
contribution = _table(
    "contribution",
    *_whose(),
    _text_key("kind"),
    *_credit(),  # in the unit of the kind, and that a day
    storage=_CHANGED_OFTEN,
)

# Inputs that were counted as received, each once per computer.
received_file = _table(
    "received_file", _key("host_id"), _text_key("file_name"), sa.Index("received_file_by_name", "file_name")
)
