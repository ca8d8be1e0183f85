"""Breaks the line that each promise rests on, in a copy of the tree, and expects the test that the promise names to fail.

``python -m tools.mutations`` tries all of them (some minutes), ``--sample N`` so many, by chance, ``--only WORD`` those whose
file, line or test has the word.  A test that goes on passing does not test its promise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
TESTS_FAILED = 1
"""Exit status of pytest; others mean that it could not run them."""
COPIED = ("src", "tests", "tools", "docs", "examples", "pyproject.toml", "CONTRIBUTING.md", "README.md")
IMPORTED_ONCE = (
    "hypothesis",
    "starlette.testclient",
    "sqlalchemy",
    "alembic.command",
    "lxml.html",
    "typer",
    "httpx",
    "argon2",
)
"""What tests import of others: the processes that run them have it already."""


class Mutation(NamedTuple):
    """A line that protects something, a broken form of it, and the test that must notice."""

    file: str  #: below src/cobblestone
    line: str  #: occurs once
    broken: str
    test: str  #: below tests


_ACCOUNT = "integration/test_web_account.py::"
_BROWSERS = "integration/test_browsers.py::"
_LINKS = "integration/test_web_mail_links.py::"
_MANAGER = "integration/test_account_manager.py::"
_OPERATOR = "integration/test_web_operator.py::"
_PERMISSIONS = "integration/test_web_permissions.py::"
_SECURITY = "integration/test_web_security.py::"
_SHARES = "integration/test_browser_shares.py::"
_SESSIONS = "integration/test_web_sessions.py::"
_STATISTICS = "integration/test_statistics_store.py::"
_COLLECTOR = "integration/test_statistics_collector.py::"
_CHECK = "integration/test_export_check.py::"
_GRANTED = "integration/test_manager_granted.py::"
_ACCOUNTING = "properties/test_account_manager_accounting.py::"
_STORAGE = "properties/test_storage_contribution.py::"
_WIRE_MANAGER = "golden/test_wire_account_manager_server.py::"
_ONE_HASH = "test_each_log_in_verifies_one_password_hash_also_for_an_unknown_address"

# fmt: off
MUTATIONS = (
    # Accounts
    Mutation("server/accounts/service.py",
        "right = await self.passwords.verify(found[1] if found else None, passwd_hash)",
        "right = found is not None and await self.passwords.verify(found[1], passwd_hash)", _SESSIONS + _ONE_HASH),
    Mutation("account_manager/core/members.py",
        "right = await self.passwords.verify(found[1] if found else None, passwd_hash(password, email))",
        "right = found is not None and await self.passwords.verify(found[1], passwd_hash(password, email))",
        _MANAGER + _ONE_HASH),
    Mutation("account_manager/rpc.py",
        "not await self._passwords.verify(found[1] if found else None, request.password_hash)",
        "not (found and await self._passwords.verify(found[1], request.password_hash))", _MANAGER + _ONE_HASH),
    Mutation("store/people/credentials.py",
        'return hashlib.sha256(f"{purpose} {code}".encode("utf-8", "surrogatepass")).hexdigest()',
        "return code", _LINKS + "test_only_hashes_of_links_are_stored"),
    Mutation("store/people/credentials.py", "    drop_codes(tx, user_id, purpose)\n    tx.execute_many(", "    tx.execute_many(",
        _ACCOUNT + "test_a_reset_link_ends_after_two_hours_and_with_the_next_one"),
    Mutation("store/people/credentials.py", "OR expire_time > ?)", "OR expire_time > ? - 1e9)",
        _ACCOUNT + "test_a_reset_link_ends_after_two_hours_and_with_the_next_one"),
    Mutation("server/accounts/security.py",
        "            if users.user_by_email(tx, email_addr) is None:  #", "            if True:  #",
        _ACCOUNT + "test_a_taken_address_is_not_taken_over_and_not_told"),
    Mutation("server/accounts/security.py", "if found is None or found.user_id != user.id:", "if found is None:",
        _ACCOUNT + "test_a_link_for_a_new_address_is_good_for_its_own_account_only"),
    Mutation("server/accounts/account_rpc.py", "return user.weak_authenticator if user.second_factor else user.authenticator",
        "return user.authenticator", _ACCOUNT + "test_with_a_second_factor_a_password_gives_clients_the_weak_key_only"),
    Mutation("service/passwords.py", " and step > last_step", "", "unit/test_one_time_password.py::test_a_password_counts_once"),
    # Sessions and forms
    Mutation("service/pages/sessions.py", "return Session(nonce=secrets.token_hex(16), user=user, stored=True)",
        'return Session(nonce="0" * 32, user=user, stored=True)', _ACCOUNT + "test_a_session_cookie_is_new_at_log_in"),
    Mutation("service/pages/sessions.py",
        "            secure=self.secure,\n            httponly=True,", "            secure=self.secure,",
        _SESSIONS + "test_the_cookie_is_out_of_reach_of_scripts_and_other_sites"),
    Mutation("service/pages/sessions.py", "< MAX_AGE_SECONDS else None", "< 2 * MAX_AGE_SECONDS else None",
        _SESSIONS + "test_a_session_ends_after_a_month"),
    Mutation("store/people/users.py", "return None if ended else user_by_id(db, user_id)", "return user_by_id(db, user_id)",
        _SESSIONS + "test_a_copy_of_a_cookie_is_worth_nothing_after_its_owner_logged_out"),
    Mutation("service/pages/sessions.py",
        "return session.stored and hmac.compare_digest(self.form_token(session).encode(), token.encode())",
        "return session.stored",
        _SECURITY + "test_every_form_that_changes_something_needs_the_token_of_its_session"),
    Mutation("service/pages/sessions.py", 'f"{session.nonce} {user_id}".encode()', 'f"{user_id}".encode()',
        _SECURITY + "test_every_form_that_changes_something_needs_the_token_of_its_session"),
    Mutation("server/web/presentation/site.py",
        "return page if _OWN_PAGE.fullmatch(page) else otherwise", "return page or otherwise",
        _SESSIONS + "test_log_in_leads_back_to_pages_of_this_project_only"),
    # Pages
    Mutation("server/web/presentation/site.py", "return owner is not None and (owner.show_hosts or is_owner(viewer, owner))",
        "return owner is not None", _PERMISSIONS + "test_each_page_opens_for_those_who_may_see_it"),
    Mutation("server/web/computers.py", "if own or not host.hidden]", "]",
        "integration/test_web_preferences.py::test_a_computer_gets_a_name_and_a_venue_and_is_hidden"),
    Mutation("store/operation/page_queries.py", "shows_hosts=bool(show_hosts) and not hidden,", "shows_hosts=bool(show_hosts),",
        _PERMISSIONS + "test_a_computer_that_is_hidden_alone_is_hidden_on_lists_of_tasks"),
    Mutation("server/web/operator.py", "if not visit.viewer.is_operator:", "if False:",
        _OPERATOR + "test_only_operators_open_the_pages"),
    Mutation("server/web/operator.py", "if visit.viewer is not None and visit.viewer.id == number:", "if False:",
        _OPERATOR + "test_roles_are_given_but_not_taken_from_oneself"),
    Mutation("service/pages/site.py", "autoescape=True", "autoescape=False",
        "integration/test_web_pages.py::test_no_text_of_others_becomes_markup"),
    Mutation("service/pages/static_files.py", "frame-ancestors 'none'", "frame-ancestors *",
        "integration/test_web_pages.py::test_every_page_has_the_security_headers"),
    Mutation("service/pages/site.py", "**(HTTPS_ONLY if self.sessions.secure else {})", "**{}",
        _SECURITY + "test_an_https_project_tells_browsers_to_stay_with_https"),
    # Browsers
    Mutation("server/scheduler/send_work.py", "            if request.in_browser:", "            if False:",
        _BROWSERS + "test_two_browsers_never_make_a_quorum"),
    Mutation("server/scheduler/browser_jobs.py", "total=1 + proven", "total=1 + threads",
        _SHARES + "test_claimed_threads_bring_nothing"),
    Mutation("server/scheduler/browser_jobs.py", "=held_in_network,", "=0,",
        _SHARES + "test_many_tokens_of_one_network_hold_half_of_the_jobs"),
    Mutation("server/api/browsers.py", "min(now + BROWSER_SILENCE, ", "min(now + 86400.0, ",
        _SHARES + "test_silent_tabs_give_their_jobs_back_within_minutes_and_end_none"),
    Mutation("store/work/dispatch.py", "return (lost.id,) in ", "return False and (lost.id,) in ",
        _SHARES + "test_a_tab_whose_job_went_to_another_browser_is_told_and_the_two_confirm_nothing"),
    Mutation("policy/validation/canonical.py", "if n != m:", "if False:",
        "integration/test_counts.py::test_a_lie_about_the_count_is_found_out_by_a_third_computer"),
    Mutation("server/web/compute.py", "or name not in pyodide.SHA256 ", "",
        _BROWSERS + "test_a_browser_hears_that_pyodide_runs_a_program_and_gets_its_files_from_the_project"),
    Mutation("service/http/api.py", "if scope not in token.scopes:", "if False:",
        _BROWSERS + "test_a_token_of_a_browser_opens_nothing_else_and_others_open_no_jobs"),
    # The API
    Mutation("store/people/credentials.py", "return self.revoke_time is None and (", "return (",
        "integration/api/test_api_access.py::test_a_revoked_token_is_refused_at_once"),
    Mutation("store/people/credentials.py", "or now < self.expire_time)", "or True)",
        "integration/api/test_api_access.py::test_an_expired_token_is_refused_and_says_so"),
    Mutation("service/http/api.py", "if scope not in token.scopes:", "if False:",
        "integration/api/test_api_access.py::test_nothing_works_without_the_scope"),
    Mutation("service/http/api.py", "if scope not in token.scopes:", "if False:",
        "integration/test_web_account.py::test_a_volunteers_token_reads_own_data_and_nothing_else"),
    Mutation("service/http/api.py", "if scope not in token.scopes:", "if False:",
        "integration/test_manager_api.py::test_a_token_that_is_not_good_opens_nothing_and_says_why"),
    Mutation("service/http/monitoring.py", ' and "x-forwarded-for" not in request.headers', "",
        "integration/test_monitoring.py::test_metrics_are_for_this_machine_or_a_token"),
    # Exports and statistics sites
    Mutation("server/files/exports.py", 'if _FILE.fullmatch(name) else ""', "",
        "integration/test_export.py::test_nothing_but_files_of_the_current_export_has_an_address"),
    Mutation("store/operation/exports.py", "h.hidden = 0 AND u.show_hosts = 1", "u.show_hosts = 1",
        "integration/test_export.py::test_only_people_who_agreed_are_exported_and_of_their_computers_those_that_they_show"),
    Mutation("store/people/consents.py", "ORDER BY c.id DESC LIMIT 1), 0) = 1", "ORDER BY c.id DESC LIMIT 1), 1) = 1",
        "integration/test_export.py::test_only_people_who_agreed_are_exported_and_of_their_computers_those_that_they_show"),
    Mutation("statistics/web/site.py", '("=", "+", "-", "@", "\\t")', '("=", "\\t")',
        "integration/test_statistics_pages.py::test_a_name_is_no_formula_in_a_spreadsheet"),
    # What must always hold
    Mutation("policy/dispatch/reports.py", "if result.host_id != host_id and context.host_owner != user_id:", "if False:",
        "integration/test_scheduler.py::test_a_result_of_somebody_else_cannot_be_reported"),
    Mutation("store/work/dispatch.py", "[assignment for assignment, n in zip(wanted, changed, strict=True) if n == 1]",
        "list(wanted)",
        "integration/test_scheduler.py::test_a_result_is_handed_to_one_host_only"),
    # Attempts, messages
    Mutation("service/http/rate_limits.py", "            self.failures_by_address.take(address, now=now)\n", "",
        _SECURITY + "test_guessing_over_many_accounts_is_slowed_down_by_address"),
    Mutation("service/http/connections.py", "if len(self.pipeline) > MAX_PIPELINED:", "if False:",
        "integration/test_lean_connections.py::test_requests_by_the_hundred_before_the_first_answer_end_the_connection"),
    Mutation("service/http/connections.py", "        self._pieces.append(body)", "        super().on_body(body)",
        "integration/test_lean_connections.py::test_a_body_in_pieces_of_one_byte_costs_little"),
    Mutation("service/http/rate_limits.py", "self._levels.popitem(last=False)", "break",
        "unit/test_rate_limits.py::test_the_number_of_buckets_is_bounded_and_the_latest_stay"),
    Mutation("server/files/uploads.py",
        "if not verify_upload_signature(ctx.secret, upload.name, upload.max_nbytes, upload.xml_signature):", "if False:",
        "integration/test_uploads.py::test_another_jobs_signature_does_not_help"),
    Mutation("account_manager/core/projects_web.py", 'if parts.scheme != "https" and', "if False and",
        "integration/test_manager_granted.py::test_a_token_is_only_sent_over_https"),
    # Of every other promise that has a line
    Mutation("account_manager/contact.py",
        "hosts.count_hosts(tx, account_id, since=contact.now - accounting.DAY) >= limits.max_new_hosts",
        "False",
        _MANAGER + "test_an_account_has_so_many_new_computers_a_day"),
    Mutation("account_manager/core/operation.py",
        "if not wire.verify_bytes(public, address, signature):",
        "if False:",
        "integration/test_cli_manager.py::test_addresses_can_be_signed_on_another_machine"),
    Mutation("account_manager/web/choices.py",
        "if host is None or host.account_id != account.id:",
        "if host is None:",
        _MANAGER + "test_pages_are_for_their_owner_and_operators_see_operation"),
    Mutation("account_manager/web/operator.py",
        "if not account.is_operator:",
        "if False:",
        _MANAGER + "test_pages_are_for_their_owner_and_operators_see_operation"),
    Mutation("ops/files.py",
        "                if most < 0:",
        "                if False:",
        _CHECK + "test_a_packed_bomb_is_refused_before_it_fills_anything"),
    Mutation("policy/lifecycle/transition.py",
        "if workunit.assimilate_state is not AssimilateState.DONE:",
        "if False:",
        "unit/test_lifecycle_transition.py::test_no_file_is_released_before_assimilation"),
    Mutation("server/accounts/account_rpc.py",
        "if found is None or found[1] or found[0].erased:",
        "if found is None or found[0].erased:",
        "integration/test_scheduler.py::test_the_weak_authenticator_works_for_the_scheduler_only"),
    Mutation("server/accounts/security.py",
        "account_changes.set_email_verified(tx, taken.user_id, now=now)\n            return users",
        "return users",
        _LINKS + "test_a_link_logs_in_once_after_its_button_was_pressed"),
    Mutation("server/accounts/security.py",
        "sealed = self._seal.encrypt(secret.encode()).decode()",
        "sealed = secret",
        _ACCOUNT + "test_the_secret_of_the_second_factor_is_not_stored_in_the_clear"),
    Mutation("server/accounts/service.py",
        "        creations.take(key, now=now)\n",
        "",
        _SECURITY + "test_accounts_are_not_made_without_end_from_one_address"),
    Mutation("server/accounts/service.py",
        'if settings.creation == "invitation" and',
        "if False and",
        _SESSIONS + "test_an_invitation_is_asked_for_and_checked"),
    Mutation("server/api/submission/batches.py",
        "earlier = batches.batch_by_key(tx, call.request_key)",
        "earlier = None",
        "integration/api/test_api_batches.py::test_a_repeated_submission_gives_the_first_batch"),
    Mutation("server/files/uploads.py",
        "if upload.nbytes > limit:",
        "if False:",
        _BROWSERS + "test_uploads_are_bound_to_the_job_and_to_its_size"),
    Mutation("server/web/compute.py",
        'allowed = f"frame-ancestors {\' \'.join(origins)}"',
        'allowed = "frame-ancestors *"',
        _BROWSERS + "test_only_sites_that_the_operator_names_may_frame_the_button"),
    Mutation("server/web/computers.py",
        "if host is None or host.user_id != user.id:",
        "if host is None:",
        "integration/test_web_preferences.py::test_only_the_owner_changes_a_computer"),
    Mutation("server/web/teams.py",
        "        if team.founder_id != user.id:\n            raise _not_founder()",
        "        if False:\n            raise _not_founder()",
        "integration/test_web_preferences.py::test_a_team_is_founded_found_joined_left_and_handed_over"),
    Mutation("service/backup.py",
        "if contents.keys is KeysInBackup.NONE:",
        "if False:",
        "integration/test_backup.py::test_secrets_go_along_only_if_wanted"),
    Mutation("service/http/rate_limits.py",
        "        self.mails_by_address.take(address, now=now)\n        self.mails_by_account.take(account, now=now)",
        "        pass",
        _SECURITY + "test_nobody_is_flooded_with_mails"),
    Mutation("statistics/collector.py",
        "size - before < settings.least_bytes_per_second * seconds",
        "size - before < 0",
        _COLLECTOR + "test_who_sends_byte_by_byte_is_given_up_before_the_time_for_a_file_is_over"),
    Mutation("statistics/ingest.py",
        "if reader.n_refused > LARGEST_SHARE_REFUSED * (n_rows + reader.n_refused):",
        "if False:",
        _STATISTICS + "test_a_broken_export_says_what_is_wrong_where_and_changes_nothing"),
    Mutation("statistics/store/build.py",
        "            AND count(*) OVER (PARTITION BY rows.project, cpid) = 1 AS sound",
        "            AS sound",
        _STATISTICS + "test_an_id_that_several_accounts_of_a_project_have_joins_none_of_them"),
    Mutation("statistics/store/build.py",
        "OR (claim.name <> '' AND fold(claim.name) = fold(holder.name)))",
        "OR true)",
        _STATISTICS + "test_a_project_cannot_take_an_id_away_rename_a_person_or_add_accounts_under_another_name"),
    Mutation("statistics/store/build.py",
        "max(int(now * 1000), int(before.stem) + 1 if before else 0)",
        "int(now * 1000)",
        _COLLECTOR + "test_a_clock_that_was_in_the_future_stops_nothing"),
    Mutation("statistics/store/queries.py",
        "return counted(found, max(since, claimed if as_member else 0.0))",
        "return found",
        _STATISTICS + "test_an_account_counts_to_a_person_from_the_day_on_which_it_joined"),
    Mutation("statistics/store/rows.py",
        '            db.execute(f"INSERT INTO forgotten SELECT DISTINCT \'{kind}\', id FROM ({announced})")\n',
        "",
        _STATISTICS + "test_who_is_announced_as_deleted_is_forgotten_with_the_history"),
    Mutation("statistics/store/rows.py",
        "WHERE old.id = new.id AND old.total = new.total",
        "WHERE old.id = new.id",
        _STATISTICS + "test_a_person_whose_cross_project_id_changes_keeps_accounts_history_and_owns_nothing_of_others"),
    Mutation("store/people/account_changes.py",
        "    credentials.drop_codes(tx, user_id, Purpose.LOG_IN)\n",
        "",
        _LINKS + "test_a_link_ends_when_what_guards_the_account_changes"),
    Mutation("store/people/account_changes.py",
        '"UPDATE user_account SET authenticator = ?, weak_authenticator = ? WHERE id = ?",',
        '"UPDATE user_account SET authenticator = ?, weak_authenticator = ? WHERE id = -?",',
        _ACCOUNT + "test_new_keys_end_the_old_ones"),
    Mutation("store/people/account_changes.py",
        "SET session_epoch = session_epoch + 1 WHERE",
        "SET session_epoch = session_epoch WHERE",
        _ACCOUNT + "test_log_out_everywhere_ends_all_other_sessions"),
    Mutation("wire/project/statistics_import.py",
        "if not 0 <= number <= most:  # nor NaN",
        "if number < 0:  # nor NaN",
        _CHECK + "test_a_record_that_cannot_be_is_refused_and_the_others_are_read"),
    Mutation("account_manager/contact.py",
        "if account is not None and account.problem:",
        "if False:",
        _MANAGER + "test_a_project_that_refuses_or_is_down_is_not_chosen_says_why_and_is_left_alone_longer_and_longer"),
    Mutation("account_manager/core/projects_web.py",
        "        if len(found) != n:\n",
        "        if False:\n",
        _GRANTED + "test_an_answer_that_is_none_is_said_and_changes_nothing"),
    Mutation("account_manager/core/projects_web.py",
        "return Keys(strong=key, weak=weak)",
        "return Keys(strong=key, weak=key)",
        _MANAGER + "test_accounts_at_projects_are_made_through_their_own_rpcs_and_only_weak_keys_go_out"),
    Mutation("account_manager/store/accounts.py",
        '    tx.execute("DELETE FROM host WHERE account_id = ?", (account_id,))\n',
        "",
        _MANAGER + "test_whoever_deletes_an_account_leaves_nothing_but_what_projects_got"),
    Mutation("policy/account_manager/accounting.py",
        "    return min(1.0, max(0.0, room) / wanted)",
        "    return 1.0",
        _ACCOUNTING + "test_nothing_that_was_reported_is_lost_and_nothing_is_counted_beyond_the_limits"),
    Mutation("policy/account_manager/accounting.py",
        "or not reported.at_least(record.fallen)",
        "or True",
        _ACCOUNTING + "test_nothing_that_was_reported_is_lost_and_nothing_is_counted_beyond_the_limits"),
    Mutation("policy/account_manager/accounting_policies.py",
        "return figure.shown + gap * (1.0 - exp(-elapsed / RISE_SECONDS))",
        "return figure.shown + 2 * gap",
        "properties/test_account_manager_figure.py::test_whatever_is_claimed_the_figure_stays_within_its_bound"),
    Mutation("policy/account_manager/accounting_policies.py",
        "return min(self.final, CEILING * self.estimate)",
        "return self.final",
        _GRANTED + "test_huge_and_negative_credit_counts_up_to_a_multiple_of_the_estimate"),
    Mutation("policy/dispatch/choose.py",
        "return app.rules.min_quorum if checked else 0",
        "return 0",
        _BROWSERS + "test_adaptive_replication_asks_for_a_second_computer_as_for_any_newcomer"),
    Mutation("policy/dispatch/match.py",
        "if not version.signed:",
        "if False:",
        "integration/test_scheduler.py::test_an_unsigned_version_is_never_sent"),
    Mutation("policy/validation/canonical.py",
        "        if found.transient:\n            self.postponed",
        "        if True:\n            self.postponed",
        "integration/test_project_functions.py::test_a_hostile_output_costs_its_host_and_nobody_else"),
    Mutation("policy/validation/canonical.py",
        "if len(matching) >= min_quorum // 2 + 1:",
        "if len(matching) >= 1:",
        "integration/test_scheduler.py::test_disagreeing_results_lead_to_a_third_that_decides"),
    Mutation("server/accounts/service.py",
        'if settings.creation == "closed":',
        "if False:",
        _SESSIONS + "test_a_closed_project_takes_no_accounts"),
    Mutation("server/api/browsers.py",
        "if row.result.host_id == host.id}",
        "}",
        _BROWSERS + "test_the_job_of_another_browser_cannot_be_reported"),
    Mutation("server/files/uploads.py",
        'return "" if same else "Another file of this name was uploaded before."',
        'return ""',
        "integration/test_uploads.py::test_another_content_cannot_replace_a_complete_file"),
    Mutation("server/scheduler/exchange.py",
        "        if theirs is not None and theirs.problem:",
        "        if False:",
        "integration/test_web_preferences.py::test_preferences_that_a_client_sends_are_read_when_they_come_and_refused_in_words"),
    Mutation("server/web/account_settings.py",
        "            if not await self._security.password_is_right(",
        "            if False and not await self._security.password_is_right(",
        _ACCOUNT + "test_what_guards_an_account_changes_with_the_password_only"),
    Mutation("service/backup.py",
        "            self._skipped.add(contents.root / contents.kind.secrets)",
        "            pass",
        "integration/test_backup.py::test_secrets_go_along_only_if_wanted"),
    Mutation("service/tar_files.py",
        "if not (member.isreg() or member.isdir()) or member.issparse():",
        "if False:",
        "unit/test_tar_files.py::test_a_hostile_tar_file_is_refused_and_leaves_nothing_outside"),
    Mutation("statistics/collector.py",
        "            if size > settings.max_file_bytes:",
        "            if False:",
        _COLLECTOR + "test_projects_that_misbehave_touch_no_other_one"),
    Mutation("store/operation/audit.py",
        "    if row[0] != digest:",
        "    if False:",
        "integration/api/test_api_batches.py::test_a_repeated_submission_gives_the_first_batch"),
    Mutation("store/operation/told_credit.py",
        "if user_id in final or user_id in revoked or user_id in pending",
        "if True",
        "integration/api/test_api_accounting.py::test_nothing_is_told_of_accounts_whose_key_was_not_shown"),
    Mutation("store/people/account_changes.py",
        '    tx.execute("DELETE FROM profile WHERE user_id = ?", (user_id,))\n',
        "",
        _ACCOUNT + "test_an_account_is_deleted_after_the_grace_period_and_its_credit_stays"),
    Mutation("wire/client/account_manager.py",
        'results.raw.split("<result>", MAX_JOBS + 1)[1 : MAX_JOBS + 1]',
        'results.raw.split("<result>")[1:]',
        _GRANTED + "test_a_client_lists_no_more_jobs_than_are_read"),
    Mutation("wire/client/gui_rpc.py",
        "not (self._local and operation in OPEN_OPERATIONS)",
        "not operation in OPEN_OPERATIONS",
        "golden/test_wire_gui_rpc.py::test_looking_is_free_on_this_computer_only"),
    Mutation("wire/project/statistics_import.py",
        "        if not self._over:\n",
        "        if False:\n",
        _STATISTICS + "test_a_broken_export_says_what_is_wrong_where_and_changes_nothing"),
    Mutation("wire/project/statistics_import.py",
        '_FIELD = re.compile(r"<(\\w{1,40})>([^<]*)</\\1>")',
        '_FIELD = re.compile(r"<(\\w{1,40})>\\s*([^<]*?)\\s*</\\1>")',
        "unit/test_regular_expressions.py::test_every_pattern_takes_linear_time"),
    Mutation("wire/text/tree.py",
        '    if len(body) > max_bytes:\n        raise RemoteProtocolError(f"<{root}> has',
        '    if False:\n        raise RemoteProtocolError(f"<{root}> has',
        _WIRE_MANAGER + "test_a_request_of_too_many_parts_is_cut_and_one_too_long_is_refused"),
    Mutation("wire/text/writer.py",
        "    if piece := markup_in(text):",
        "    if piece := False:",
        "properties/test_texts_that_clients_keep.py::test_a_reply_with_any_text_is_refused_or_survives_the_clients_state"),
    Mutation("wire/text/writer.py",
        "return escape(one_line(text)) if _SPECIAL.search(text) else text\n",
        "return text\n",
        "golden/test_wire_statistics_export.py::test_hostile_texts_and_numbers_stay_within_their_elements"),

)
# fmt: on

_CLIENTS = "Real clients, browsers and other systems take minutes for each broken line."
_LONG = "A search or simulation of minutes; what bounds it is broken under the tests of its parts."
_WHOLE = "It is about the whole program, or a file in it: no line of the program holds it."
_LAUNCHER = "It rests on the compiled launcher, which is the same until somebody compiles it."
_NOT_FOUND = "No line was found yet that holds it alone."

WITHOUT_OF_FOLDER = {"e2e": _CLIENTS, "browser": _CLIENTS, "everywhere": _CLIENTS, "simulations": _LONG}
"""Why promises have no line to break whose tests all lie in these folders."""
WITHOUT: Mapping[str, tuple[str, ...]] = {
    _LAUNCHER: (
        "programs/test_hostile_modules.py::test_a_hostile_module_ends_in_a_bounded_way_with_a_sentence",
        "programs/test_native_launcher.py::test_a_job_interrupted_anywhere_gives_the_same_bytes",
        "programs/test_native_launcher.py::test_an_input_of_a_job_does_not_become_code",
        "programs/test_native_launcher.py::test_ends_are_told_in_words",
        "programs/test_native_launcher.py::test_the_count_of_instructions_is_progress_and_reported_work",
        "programs/test_native_launcher.py::test_the_disk_bound_is_enforced",
        "programs/test_native_launcher.py::test_the_module_sees_its_own_files_only",
        "unit/test_bundle.py::test_a_hostile_archive_leaves_nothing_outside",
    ),
    _LONG: (
        "conformance/test_standby_and_pool.py::test_a_standby_takes_over_and_has_all_that_was_acknowledged",
        "conformance/test_upgrade.py::test_sigkill_in_the_middle_of_a_step_leaves_the_database_as_it_was",
        "integration/test_bucket.py::test_a_storage_that_is_away_puts_uploads_off_and_loses_nothing",
        "integration/test_chaos.py::test_among_liars_and_jumping_clocks_every_job_ends_with_the_right_answer",
        "integration/test_cli_manager.py::test_what_was_answered_is_there_after_a_kill_and_a_backup_under_load_is_sound",
        "integration/test_faults.py::test_on_a_full_disk_nothing_is_acknowledged_and_everything_is_there_afterwards",
        "integration/test_growth.py::test_no_statement_reads_more_when_many_more_results_are_finished_and_computers_known",
        "integration/test_move.py::test_an_interrupted_move_goes_on",
        "integration/test_overload.py::test_uploads_that_are_sent_away_come_again_and_nothing_is_lost",
        "integration/test_sweep_interrupted.py::test_an_interrupted_sweep_keeps_its_results_and_ends_its_workers",
        "programs/test_hostile_outputs.py::test_a_hostile_output_costs_little_time_and_memory",
        "properties/test_bad_hosts.py::test_no_host_wastes_more_than_stated",
        "properties/test_client_preferences.py::test_never_means_never_and_always_yields_to_the_computer_s_safety_only",
        "properties/test_credit_systems.py::test_hostile_reports_get_bounded_credit_and_poison_no_average",
        "properties/test_cross_project_scales.py::test_one_project_cannot_move_the_average_beyond_the_bound",
        "properties/test_dispatch_properties.py::test_what_is_told_to_the_client_is_finite_and_positive",
        "properties/test_hostile_peers.py::test_a_damaged_scheduler_request_gets_a_reply_of_the_protocol",
        "properties/test_storage_contribution.py::test_an_honest_computer_is_never_paid_more_than_it_keeps_and_no_time_is_paid_twice",
        "properties/test_task_exit.py::test_our_own_orders_never_count_against_the_job",
        "unit/policy_client/test_core.py::test_a_client_that_is_stored_and_restored_decides_as_one_that_never_stops",
    ),
    _NOT_FOUND: (
        "conformance/test_two_processes.py::test_a_result_is_credited_once_whoever_tries",
        "integration/api/test_api_access.py::test_a_failure_of_the_server_shows_nothing_of_itself",
        "integration/test_backup.py::test_a_restored_backup_is_the_project_again",
        "integration/test_browsers.py::test_nobody_logs_in_as_the_visitors",
        "integration/test_consent.py::test_whether_others_see_computers_is_asked_or_set_by_the_operator",
        "integration/test_credit.py::test_every_system_leaves_books_that_can_be_proven",
        "integration/test_doctor.py::test_every_check_is_tried_by_harm",
        "integration/test_export.py::test_who_leaves_is_announced_for_sixty_days_and_then_forgotten",
        "integration/test_failing_comparisons.py::test_whatever_a_comparison_raises_holds_its_own_jobs_until_it_is_mended",
        "integration/test_keys.py::test_a_client_with_the_old_key_gets_the_new_one_signed_with_the_old",
        "integration/test_manager_granted.py::test_an_account_of_a_project_counts_for_one_person",
        "integration/test_manager_upkeep.py::test_a_backup_of_a_running_one_is_restored_as_it_was",
        "integration/test_project_functions.py::test_a_failing_assimilator_is_called_again_and_nothing_is_lost",
        "integration/test_sdk.py::test_a_failed_job_tells_why",
        "integration/test_web_account.py::test_the_second_factor_is_shown_as_a_picture_of_its_address",
        "integration/test_web_certificates.py::test_a_certificate_says_what_was_contributed_and_its_code_shows_that_it_is_ours",
        "integration/test_web_operator.py::test_a_user_is_sent_a_link_for_a_new_password_in_their_language",
        "integration/test_web_permissions.py::test_secrets_are_shown_to_their_owner_only",
        "integration/test_web_security.py::test_behind_a_proxy_each_visitor_has_limits_of_their_own",
        "unit/test_agreement.py::test_numbers_agree_within_the_tolerance_in_either_order",
        "unit/test_wasm_module.py::test_what_cannot_be_run_is_refused",
    ),
    _WHOLE: (
        "conformance/test_released_schemas.py::test_a_kept_project_is_upgraded_and_has_all_its_rows",
        "integration/api/test_api_access.py::test_the_description_is_valid_openapi",
        "integration/test_cli.py::test_a_project_is_made_with_all_that_it_needs",
        "integration/test_export_check.py::test_an_export_of_the_familys_own_server_is_read_whole",
        "integration/test_recipes.py::test_the_command_prints_in_each_form",
        "integration/test_recipes.py::test_the_credit_system_is_found_grants_and_is_computed_again",
        "integration/test_recipes.py::test_the_kind_of_a_validator_is_found_and_decides",
        "integration/test_recipes.py::test_the_message_is_read_and_written",
        "integration/test_recipes.py::test_the_page_is_shown",
        "integration/test_sdk_examples.py::test_the_examples_in_docstrings_do_what_they_say",
        "programs/test_documentation_site.py::test_pages_load_nothing_from_elsewhere",
        "programs/test_examples.py::test_the_assimilator_may_be_repeated_and_merges_what_is_there",
        "unit/policy_client/test_recipe.py::test_the_simulator_runs_a_registered_policy_by_its_name",
        "unit/test_cli_documented.py::test_the_page_of_commands_has_every_command_and_option",
        "unit/test_imports.py::test_every_core_module_can_be_imported_without_the_extras",
        "unit/test_pythons.py::test_no_module_needs_a_patch_of_python",
        "unit/test_web_languages.py::test_every_text_of_the_program_is_translated",
    ),
}
"""Why other promises have none, with the first test of each."""


def run_tests(tree: Path, tests: Iterable[str]) -> int:
    """Return pytest's exit status for some tests of a tree; they run in a process of their own."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.chdir(tree)
        sys.path[:0] = [str(tree), str(tree / "src")]
        status = pytest.main(
            ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", *(f"tests/{each}" for each in tests)]
        )
    finally:
        os._exit(status)


def survives(tree: Path, mutation: Mutation) -> str:
    """Break a line and return what is wrong with its test; empty: it failed, as it should."""
    file = tree / "src" / "cobblestone" / mutation.file
    text = file.read_text()
    file.write_text(text.replace(mutation.line, mutation.broken))
    try:
        status = run_tests(tree, [mutation.test])
    finally:
        file.write_text(text)
    return {TESTS_FAILED: "", 0: "goes on passing"}.get(status, f"cannot be run (status {status})")


def copied(folder: str) -> Path:
    """Copy the tree, with what is compiled, into a new folder."""
    tree = Path(tempfile.mkdtemp(dir=folder))
    for name in COPIED:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, tree / name, symlinks=True)
        else:
            shutil.copy2(place, tree / name)
    return tree


def try_some(folder: str, mutations: Iterable[Mutation]) -> int:
    """Try mutations one after the other in a tree; return how many tests did not notice."""
    tree, holes = copied(folder), 0
    for each in mutations:
        problem = survives(tree, each)
        holes += bool(problem)
        line = each.line.split("\n")[0].strip()
        print(f"{problem or 'noticed'}: {each.file}: {line}  ({each.test})", flush=True)
    return holes


def main() -> int:
    """Try mutations; return 1 if a test went on passing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="So many, by chance.")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="Of the chance; printed.")
    parser.add_argument("--jobs", type=int, default=2, help="Side by side.")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [each for each in MUTATIONS if any(options.only in part for part in each)]
    for name in IMPORTED_ONCE:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        if options.sample:
            print(
                f"Seed {options.seed}: repeat with --sample {options.sample} --seed {options.seed}",
                flush=True,
            )
            chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
        elif status := run_tests(copied(folder), sorted({each.test for each in chosen})):
            print(f"The tests fail (status {status}) although nothing is broken.")
            return 1
        # Tests of one file stay together: its part of the compiled tree is read once.
        chosen.sort(key=lambda each: each.test)
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            portions = [(folder, chosen[place :: options.jobs]) for place in range(options.jobs)]
            holes = sum(pool.starmap(try_some, portions))
    print(f"{len(chosen)} lines broken, {holes} tests did not notice.")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
