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
from collections.abc import Iterable
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
_SESSIONS = "integration/test_web_sessions.py::"
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
    Mutation("server/scheduler/send_work.py", "            if request.in_browser:  #", "            if False:  #",
        _BROWSERS + "test_two_browsers_never_make_a_quorum"),
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
    Mutation("service/http/rate_limits.py", "self._levels.popitem(last=False)", "break",
        "unit/test_rate_limits.py::test_the_number_of_buckets_is_bounded_and_the_latest_stay"),
    Mutation("server/files/uploads.py",
        "if not verify_upload_signature(ctx.secret, upload.name, upload.max_nbytes, upload.xml_signature):", "if False:",
        "integration/test_uploads.py::test_another_jobs_signature_does_not_help"),
    Mutation("account_manager/core/projects_web.py", 'if parts.scheme != "https" and', "if False and",
        "integration/test_manager_granted.py::test_a_token_is_only_sent_over_https"),
)
# fmt: on


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
