"""Calls for operators: tokens, accounts, teams, news, credit, hosts, workunits, roles, the audit log, checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from cobblestone.api_schema import endpoints, operation, people
from cobblestone.api_schema.batches import Workunit, WorkunitChanges, WorkunitDetails
from cobblestone.api_schema.project import NewTrickle, SentTrickle, Trickle
from cobblestone.domain.people import Scope
from cobblestone.sdk.api.connection import Connection, NotFoundError

PAGE = 1000
AUDIT_SECONDS = 3600.0


class Administration:
    """The operator's part of a project; needs the scope ``manage``."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call

    def create_token(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        days: float | None = None,
        share: float = 1.0,
        apps: Sequence[str] | None = None,
        max_jobs: int | None = None,
    ) -> people.CreatedToken:
        """Create a token for ``days`` days, or until it is revoked.  Its text is shown only once.

        ``share``: when several submitters have jobs waiting, computers are divided among them in this proportion.  ``apps``:
        the only ones of which it may submit jobs.  ``max_jobs``: unfinished ones at a time.
        """
        body = people.NewToken(
            name=name,
            scopes=cast("list[Scope]", list(scopes)),  # others are refused by the project
            days=days,
            share=share,
            apps=None if apps is None else tuple(apps),
            max_jobs=max_jobs,
        )
        return self._call(endpoints.CREATE_TOKEN, body=body)

    def tokens(self) -> list[people.Token]:
        """Return all tokens, newest first."""
        return self._call(endpoints.LIST_TOKENS).tokens

    def revoke_token(self, token_id: int) -> people.Token:
        """Revoke a token.  Raises NotFoundError."""
        return self._call(endpoints.REVOKE_TOKEN, token_id)

    def create_user(self, email: str, name: str, *, password: str = "") -> people.CreatedUser:
        """Create an account; without a password, clients attach with its authenticator, which is shown only once."""
        return self._call(
            endpoints.CREATE_USER, body=people.NewUser(email=email, name=name, password=password)
        )

    def users(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        role: str | None = None,
        blocked: bool | None = None,
    ) -> list[people.User]:
        """Return accounts, newest first; ``before``: only those with a smaller id, for the next page."""
        return self._call(endpoints.LIST_USERS, limit=limit, before=before, role=role, blocked=blocked).users

    def user(self, user_id: int) -> people.UserDetails:
        """Describe an account.  Raises NotFoundError."""
        return self._call(endpoints.GET_USER, user_id)

    def change_user(self, user_id: int, changes: people.UserChanges) -> people.UserDetails:
        """Change the profile of an account.  Raises NotFoundError."""
        return self._call(endpoints.CHANGE_USER, user_id, body=changes)

    def set_rights(self, user_id: int, rights: people.Rights | None) -> people.UserDetails:
        """Let an account submit jobs, or (None) no more.  Raises NotFoundError, ConflictError."""
        if rights is None:
            return self._call(endpoints.WITHDRAW_RIGHTS, user_id)
        return self._call(endpoints.SET_RIGHTS, user_id, body=rights)

    def create_team(self, name: str, founder: int) -> people.Team:
        """Create a team; its founder joins it.  Raises NotFoundError, ConflictError."""
        return self._call(endpoints.CREATE_TEAM, body=people.NewTeam(name=name, founder=founder))

    def teams(self) -> list[people.Team]:
        """Return all teams."""
        found: list[people.Team] = []
        while page := self._call(endpoints.LIST_TEAMS, after=found[-1].id if found else 0).teams:
            found += page
        return found

    def join_team(self, team: str, user_id: int) -> people.Team:
        """Add a user to a team, given by name or id.  Raises NotFoundError."""
        fits = self._call(endpoints.LIST_TEAMS, name=team).teams
        if not fits and not team.isdecimal():
            raise NotFoundError(f"There is no team {team!r}. See: cobblestone team list")
        team_id = fits[0].id if fits else int(team)
        return self._call(endpoints.JOIN_TEAM, team_id, body=people.TeamMember(user=user_id))

    def add_news(self, title: str, text: str) -> people.News:
        """Publish a news item; clients show it as a notice."""
        return self._call(endpoints.ADD_NEWS, body=people.NewNews(title=title, text=text))

    def news(self, *, limit: int = 100, before: int | None = None) -> list[people.News]:
        """Return news, newest first; ``before``: only those with a smaller id."""
        return self._call(endpoints.LIST_NEWS, limit=limit, before=before).news

    def news_item(self, news_id: int) -> people.News:
        """Return a news item.  Raises NotFoundError."""
        return self._call(endpoints.GET_NEWS, news_id)

    def edit_news(self, news_id: int, *, title: str | None = None, text: str | None = None) -> people.News:
        """Change a news item; clients that have shown it do not show it again.  Raises NotFoundError."""
        return self._call(endpoints.EDIT_NEWS, news_id, body=people.NewsChanges(title=title, text=text))

    def withdraw_news(self, news_id: int) -> people.News:
        """Remove a news item from the pages and the feed.  Raises NotFoundError."""
        return self._call(endpoints.WITHDRAW_NEWS, news_id)

    def explain_credit(self, result: str) -> operation.CreditExplanation:
        """Return how the credit of a result (id or name) was computed.  Raises NotFoundError."""
        return self._call(endpoints.EXPLAIN_CREDIT, result)

    def explain_host(self, host_id: int) -> operation.HostExplanation:
        """Return what a computer would get if it asked for work now, and why not more.  Raises NotFoundError."""
        return self._call(endpoints.EXPLAIN_HOST, host_id)

    def explain_workunit(self, workunit: str) -> operation.WorkunitExplanation:
        """Return the state of a workunit (id or name) and what it waits for.  Raises NotFoundError."""
        return self._call(endpoints.EXPLAIN_WORKUNIT, workunit)

    def explain_result(self, result: str) -> operation.ResultExplanation:
        """Return what happened to a result (id or name).  Raises NotFoundError."""
        return self._call(endpoints.EXPLAIN_RESULT, result)

    def audit_ledger(self) -> operation.LedgerAudit:
        """Recompute every grant, total and average from the ledger."""
        return self._call(endpoints.AUDIT_LEDGER, timeout=AUDIT_SECONDS)

    def correct_credit(self, result: str, amount: float, reason: str) -> operation.LedgerEntry:
        """Correct the credit of a result with a new entry; negative takes credit back.  Raises NotFoundError, ConflictError."""
        body = operation.NewCorrection(result=result, amount=amount, reason=reason)
        return self._call(endpoints.CORRECT_CREDIT, body=body)

    def credit_systems(self) -> list[operation.CreditSystem]:
        """Return the credit systems that an app can choose."""
        return self._call(endpoints.LIST_CREDIT_SYSTEMS).systems

    def trickles(self, *, after: int = 0) -> list[Trickle]:
        """Return messages from running jobs, oldest first; ``after``: only those with a larger number."""
        found: list[Trickle] = []
        while page := self._call(
            endpoints.LIST_TRICKLES, after=found[-1].id if found else after, limit=PAGE
        ).trickles:
            found += page
        return found

    def send_trickle(self, result: str, text: str) -> SentTrickle:
        """Send a message to a running job.  Raises NotFoundError, or ConflictError if the job is not running."""
        return self._call(endpoints.SEND_TRICKLE, body=NewTrickle(result=result, text=text))

    def apply_scales(self, scales: Mapping[str, float], *, dry_run: bool = False) -> operation.AppliedScales:
        """Set the scales of GPU-only apps' versions to published ones, by plan class, or only return what would change."""
        body = operation.PublishedScales(scales=dict(scales), dry_run=dry_run)
        return self._call(endpoints.APPLY_SCALES, body=body)


CHECK_SECONDS = 3600.0
_BLOCKING = {"host": endpoints.BLOCK_HOST, "user": endpoints.BLOCK_USER}
_UNBLOCKING = {"host": endpoints.UNBLOCK_HOST, "user": endpoints.UNBLOCK_USER}


class Operation:
    """Calls to operate a running project; they need the scope ``manage``.  Unknown ids raise NotFoundError."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call

    def workunits(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        app: str | None = None,
        batch: int | None = None,
        status: str | None = None,
    ) -> list[Workunit]:
        """Return workunits, newest first; ``before``: only those with a smaller id.

        Those of one app or status (``waiting``, ``running``, ``done``, ``failed``, ``cancelled``) are sought among the
        newest 20,000.
        """
        return self._call(
            endpoints.LIST_WORKUNITS, limit=limit, before=before, app=app, batch=batch, status=status
        ).workunits

    def workunit(self, workunit: str) -> WorkunitDetails:
        """Describe a workunit (id or name), with its results."""
        return self._call(endpoints.GET_WORKUNIT, workunit)

    def change_workunit(self, workunit: str, changes: WorkunitChanges) -> WorkunitDetails:
        """Change a workunit (id or name) for results not sent yet.  Raises ConflictError if it is finished."""
        return self._call(endpoints.CHANGE_WORKUNIT, workunit, body=changes)

    def cancel_workunit(self, workunit_id: int) -> operation.Done:
        """Cancel a workunit.  Raises ConflictError if it is finished."""
        return self._call(endpoints.CANCEL_WORKUNIT, workunit_id)

    def retry_workunit(self, workunit_id: int) -> operation.RetriedWorkunit:
        """Retry a workunit.  Raises ConflictError if it has an answer."""
        return self._call(endpoints.RETRY_WORKUNIT, workunit_id)

    def hosts(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        user: int | None = None,
        blocked: bool | None = None,
    ) -> list[operation.Host]:
        """Return computers, newest first; ``before``: only those with a smaller id."""
        return self._call(endpoints.LIST_HOSTS, limit=limit, before=before, user=user, blocked=blocked).hosts

    def host(self, host_id: int) -> operation.HostDetails:
        """Describe a computer."""
        return self._call(endpoints.GET_HOST, host_id)

    def change_host(self, host_id: int, changes: operation.HostChanges) -> operation.HostDetails:
        """Change the settings that the owner of a computer made for it."""
        return self._call(endpoints.CHANGE_HOST, host_id, body=changes)

    def reset_host_errors(self, host_id: int) -> operation.HostExplanation:
        """Forget a computer's bad results and missing features after a repair."""
        return self._call(endpoints.RESET_HOST_ERRORS, host_id)

    def block(self, noun: str, number: int, reason: str) -> operation.Done:
        """Send no more work to a ``host``, or to the hosts of a ``user``; the volunteer can read the reason."""
        return self._call(_BLOCKING[noun], number, body=operation.Reason(reason=reason))

    def unblock(self, noun: str, number: int) -> operation.Done:
        """Send work to a ``host``, or to the hosts of a ``user``, again."""
        return self._call(_UNBLOCKING[noun], number)

    def set_role(self, user_id: int, role: str) -> operation.Done:
        """Make a user an ``operator``, or (empty) a plain volunteer again."""
        return self._call(endpoints.SET_ROLE, user_id, body=operation.RoleBody(role=role))

    def reset_password(self, user_id: int) -> operation.NewPassword:
        """Set a new password for a user; it is shown only once."""
        return self._call(endpoints.RESET_PASSWORD, user_id)

    def delete_user(self, user_id: int) -> operation.Done:
        """Erase an account."""
        return self._call(endpoints.DELETE_USER, user_id)

    def start_rollout(
        self,
        version_id: int,
        stages: Sequence[float],
        *,
        max_error_rate: float = 0.1,
        min_results: int = 20,
        min_hours: float = 1.0,
    ) -> operation.Rollout:
        """Roll a version out to growing parts of the hosts.  Raises ConflictError if the stages do not grow."""
        body = operation.RolloutBody(
            stages=list(stages), max_error_rate=max_error_rate, min_results=min_results, min_hours=min_hours
        )
        return self._call(endpoints.START_ROLLOUT, version_id, body=body)

    def hold_rollout(self, version_id: int) -> operation.Rollout:
        """Send a version to no more hosts."""
        return self._call(endpoints.HOLD_ROLLOUT, version_id)

    def roll_back(self, version_id: int, *, abort_jobs: bool = False) -> operation.RolledBack:
        """Withdraw a version in favour of the previous one."""
        return self._call(endpoints.ROLL_BACK, version_id, body=operation.RollBackBody(abort_jobs=abort_jobs))

    def audit(
        self, *, limit: int = 50, before: int | None = None, target: str = "", actor: str = ""
    ) -> list[operation.AuditEntry]:
        """Return the entries of the audit log, newest first."""
        found = self._call(endpoints.LIST_AUDIT, limit=limit, before=before, target=target, actor=actor)
        return found.entries

    def search(self, text: str) -> list[operation.Found]:
        """Find users, hosts, batches, workunits and results by id or by the start of a name."""
        return self._call(endpoints.SEARCH, q=text).found

    def checks(self) -> list[operation.Check]:
        """Return the integrity checks of the project."""
        return self._call(endpoints.LIST_CHECKS).checks

    def diagnose(self, name: str) -> operation.Diagnosis:
        """Run a check."""
        return self._call(endpoints.DIAGNOSE, name, timeout=CHECK_SECONDS)

    def repair(self, name: str) -> operation.Repair:
        """Repair what a check found, as far as it is safe."""
        return self._call(endpoints.REPAIR, name, timeout=CHECK_SECONDS)
