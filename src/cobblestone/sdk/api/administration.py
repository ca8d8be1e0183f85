"""Calls for operators: tokens, accounts, teams, news, credit, hosts, workunits, roles, the audit log, checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from cobblestone.api_schema.batches import Workunit, WorkunitChanges, WorkunitDetails, WorkunitList
from cobblestone.api_schema.operation import (
    AppliedScales,
    AuditEntry,
    AuditList,
    Check,
    CheckList,
    CreditExplanation,
    CreditSystem,
    CreditSystemList,
    Diagnosis,
    Done,
    Found,
    FoundList,
    Host,
    HostChanges,
    HostDetails,
    HostExplanation,
    HostList,
    LedgerAudit,
    LedgerEntry,
    NewCorrection,
    NewPassword,
    PublishedScales,
    Reason,
    Repair,
    ResultExplanation,
    RetriedWorkunit,
    RoleBody,
    RollBackBody,
    RolledBack,
    Rollout,
    RolloutBody,
    WorkunitExplanation,
)
from cobblestone.api_schema.people import (
    CreatedToken,
    CreatedUser,
    NewNews,
    News,
    NewsChanges,
    NewsList,
    NewTeam,
    NewUser,
    Team,
    TeamList,
    TeamMember,
    Token,
    TokenList,
    User,
    UserChanges,
    UserDetails,
    UserList,
)
from cobblestone.api_schema.project import NewTrickle, SentTrickle, Trickle, TrickleList
from cobblestone.sdk.api.connection import Connection, NotFoundError

PAGE = 1000
AUDIT_SECONDS = 3600.0


class Administration:
    """The operator's part of a project; needs the scope ``manage``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create_token(
        self, name: str, scopes: Iterable[str], *, days: float | None = None, share: float = 1.0
    ) -> CreatedToken:
        """Create a token for ``days`` days, or until it is revoked.  Its text is shown only once.

        ``share``: when several submitters have jobs waiting, computers are divided among them in this proportion.
        """
        body = {"name": name, "scopes": list(scopes), "days": days, "share": share}
        return self._connection.post("/tokens", body, CreatedToken)

    def tokens(self) -> list[Token]:
        """Return all tokens, newest first."""
        return self._connection.get("/tokens", TokenList).tokens

    def revoke_token(self, token_id: int) -> Token:
        """Revoke a token.  Raises NotFoundError."""
        return self._connection.delete(f"/tokens/{token_id}", Token)

    def create_user(self, email: str, name: str, *, password: str = "") -> CreatedUser:
        """Create an account; without a password, clients attach with its authenticator, which is shown only once."""
        return self._connection.post(
            "/users", NewUser(email=email, name=name, password=password), CreatedUser
        )

    def users(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        role: str | None = None,
        blocked: bool | None = None,
    ) -> list[User]:
        """Return accounts, newest first; ``before``: only those with a smaller id, for the next page."""
        return self._connection.get(
            "/users", UserList, limit=limit, before=before, role=role, blocked=blocked
        ).users

    def user(self, user_id: int) -> UserDetails:
        """Describe an account.  Raises NotFoundError."""
        return self._connection.get(f"/users/{user_id}", UserDetails)

    def change_user(self, user_id: int, changes: UserChanges) -> UserDetails:
        """Change the profile of an account.  Raises NotFoundError."""
        return self._connection.patch(f"/users/{user_id}", changes, UserDetails)

    def create_team(self, name: str, founder: int) -> Team:
        """Create a team; its founder joins it.  Raises NotFoundError, ConflictError."""
        return self._connection.post("/teams", NewTeam(name=name, founder=founder), Team)

    def teams(self) -> list[Team]:
        """Return all teams."""
        return self._connection.get("/teams", TeamList).teams

    def join_team(self, team: str, user_id: int) -> Team:
        """Add a user to a team, given by name or id.  Raises NotFoundError."""
        known = self.teams()
        fits = [each for each in known if each.name.lower() == team.lower() or str(each.id) == team]
        if not fits:
            raise NotFoundError(
                f"There is no team {team!r}. Known: {', '.join(each.name for each in known) or 'none'}."
            )
        return self._connection.post(f"/teams/{fits[0].id}/members", TeamMember(user=user_id), Team)

    def add_news(self, title: str, text: str) -> News:
        """Publish a news item; clients show it as a notice."""
        return self._connection.post("/news", NewNews(title=title, text=text), News)

    def news(self, *, limit: int = 100, before: int | None = None) -> list[News]:
        """Return news, newest first; ``before``: only those with a smaller id."""
        return self._connection.get("/news", NewsList, limit=limit, before=before).news

    def news_item(self, news_id: int) -> News:
        """Return a news item.  Raises NotFoundError."""
        return self._connection.get(f"/news/{news_id}", News)

    def edit_news(self, news_id: int, *, title: str | None = None, text: str | None = None) -> News:
        """Change a news item; clients that have shown it do not show it again.  Raises NotFoundError."""
        return self._connection.patch(f"/news/{news_id}", NewsChanges(title=title, text=text), News)

    def withdraw_news(self, news_id: int) -> News:
        """Remove a news item from the pages and the feed.  Raises NotFoundError."""
        return self._connection.delete(f"/news/{news_id}", News)

    def explain_credit(self, result: str) -> CreditExplanation:
        """Return how the credit of a result (id or name) was computed.  Raises NotFoundError."""
        return self._connection.get(f"/credit/results/{quote(result, safe='')}", CreditExplanation)

    def explain_host(self, host_id: int) -> HostExplanation:
        """Return what a computer would get if it asked for work now, and why not more.  Raises NotFoundError."""
        return self._connection.get(f"/explain/hosts/{host_id}", HostExplanation)

    def explain_workunit(self, workunit: str) -> WorkunitExplanation:
        """Return the state of a workunit (id or name) and what it waits for.  Raises NotFoundError."""
        return self._connection.get(f"/explain/workunits/{quote(workunit, safe='')}", WorkunitExplanation)

    def explain_result(self, result: str) -> ResultExplanation:
        """Return what happened to a result (id or name).  Raises NotFoundError."""
        return self._connection.get(f"/explain/results/{quote(result, safe='')}", ResultExplanation)

    def audit_ledger(self) -> LedgerAudit:
        """Recompute every grant, total and average from the ledger."""
        return self._connection.get("/credit/audit", LedgerAudit, timeout=AUDIT_SECONDS)

    def correct_credit(self, result: str, amount: float, reason: str) -> LedgerEntry:
        """Correct the credit of a result with a new entry; negative takes credit back.  Raises NotFoundError, ConflictError."""
        body = NewCorrection(result=result, amount=amount, reason=reason)
        return self._connection.post("/credit/corrections", body, LedgerEntry)

    def credit_systems(self) -> list[CreditSystem]:
        """Return the credit systems that an app can choose."""
        return self._connection.get("/credit/systems", CreditSystemList).systems

    def trickles(self, *, after: int = 0) -> list[Trickle]:
        """Return messages from running jobs, oldest first; ``after``: only those with a larger number."""
        found: list[Trickle] = []
        while page := self._connection.get(
            "/trickles", TrickleList, after=found[-1].id if found else after, limit=PAGE
        ).trickles:
            found += page
        return found

    def send_trickle(self, result: str, text: str) -> SentTrickle:
        """Send a message to a running job.  Raises NotFoundError, or ConflictError if the job is not running."""
        return self._connection.post("/trickles", NewTrickle(result=result, text=text), SentTrickle)

    def apply_scales(self, scales: Mapping[str, float], *, dry_run: bool = False) -> AppliedScales:
        """Set the scales of GPU-only apps' versions to published ones, by plan class, or only return what would change."""
        body = PublishedScales(scales=dict(scales), dry_run=dry_run)
        return self._connection.post("/scales", body, AppliedScales)


CHECK_SECONDS = 3600.0


class Operation:
    """Calls to operate a running project; they need the scope ``manage``.  Unknown ids raise NotFoundError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        return self._connection.get(
            "/workunits", WorkunitList, limit=limit, before=before, app=app, batch=batch, status=status
        ).workunits

    def workunit(self, workunit: str) -> WorkunitDetails:
        """Describe a workunit (id or name), with its results."""
        return self._connection.get(f"/workunits/{quote(workunit, safe='')}", WorkunitDetails)

    def change_workunit(self, workunit: str, changes: WorkunitChanges) -> WorkunitDetails:
        """Change a workunit (id or name) for results not sent yet.  Raises ConflictError if it is finished."""
        return self._connection.patch(f"/workunits/{quote(workunit, safe='')}", changes, WorkunitDetails)

    def cancel_workunit(self, workunit_id: int) -> Done:
        """Cancel a workunit.  Raises ConflictError if it is finished."""
        return self._connection.post(f"/workunits/{workunit_id}/cancel", {}, Done)

    def retry_workunit(self, workunit_id: int) -> RetriedWorkunit:
        """Retry a workunit.  Raises ConflictError if it has an answer."""
        return self._connection.post(f"/workunits/{workunit_id}/retry", {}, RetriedWorkunit)

    def hosts(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        user: int | None = None,
        blocked: bool | None = None,
    ) -> list[Host]:
        """Return computers, newest first; ``before``: only those with a smaller id."""
        return self._connection.get(
            "/hosts", HostList, limit=limit, before=before, user=user, blocked=blocked
        ).hosts

    def host(self, host_id: int) -> HostDetails:
        """Describe a computer."""
        return self._connection.get(f"/hosts/{host_id}", HostDetails)

    def change_host(self, host_id: int, changes: HostChanges) -> HostDetails:
        """Change the settings that the owner of a computer made for it."""
        return self._connection.patch(f"/hosts/{host_id}", changes, HostDetails)

    def reset_host_errors(self, host_id: int) -> HostExplanation:
        """Forget a computer's bad results and missing features after a repair."""
        return self._connection.post(f"/hosts/{host_id}/reset_errors", {}, HostExplanation)

    def block(self, noun: str, number: int, reason: str) -> Done:
        """Send no more work to a ``host``, or to the hosts of a ``user``; the volunteer can read the reason."""
        return self._connection.put(f"/{noun}s/{number}/block", Reason(reason=reason), Done)

    def unblock(self, noun: str, number: int) -> Done:
        """Send work to a ``host``, or to the hosts of a ``user``, again."""
        return self._connection.delete(f"/{noun}s/{number}/block", Done)

    def set_role(self, user_id: int, role: str) -> Done:
        """Make a user an ``operator``, or (empty) a plain volunteer again."""
        return self._connection.put(f"/users/{user_id}/role", RoleBody(role=role), Done)

    def reset_password(self, user_id: int) -> NewPassword:
        """Set a new password for a user; it is shown only once."""
        return self._connection.post(f"/users/{user_id}/password", {}, NewPassword)

    def delete_user(self, user_id: int) -> Done:
        """Erase an account."""
        return self._connection.delete(f"/users/{user_id}", Done)

    def start_rollout(
        self,
        version_id: int,
        stages: Sequence[float],
        *,
        max_error_rate: float = 0.1,
        min_results: int = 20,
        min_hours: float = 1.0,
    ) -> Rollout:
        """Roll a version out to growing parts of the hosts.  Raises ConflictError if the stages do not grow."""
        body = RolloutBody(
            stages=list(stages),
            max_error_rate=max_error_rate,
            min_results=min_results,
            min_hours=min_hours,
        )
        return self._connection.post(f"/versions/{version_id}/rollout", body, Rollout)

    def hold_rollout(self, version_id: int) -> Rollout:
        """Send a version to no more hosts."""
        return self._connection.post(f"/versions/{version_id}/hold", {}, Rollout)

    def roll_back(self, version_id: int, *, abort_jobs: bool = False) -> RolledBack:
        """Withdraw a version in favour of the previous one."""
        return self._connection.post(
            f"/versions/{version_id}/roll_back", RollBackBody(abort_jobs=abort_jobs), RolledBack
        )

    def audit(
        self, *, limit: int = 50, before: int | None = None, target: str = "", actor: str = ""
    ) -> list[AuditEntry]:
        """Return the entries of the audit log, newest first."""
        found = self._connection.get(
            "/audit", AuditList, limit=limit, before=before, target=target, actor=actor
        )
        return found.entries

    def search(self, text: str) -> list[Found]:
        """Find users, hosts, batches, workunits and results by id or by the start of a name."""
        return self._connection.get("/search", FoundList, q=text).found

    def checks(self) -> list[Check]:
        """Return the integrity checks of the project."""
        return self._connection.get("/doctor", CheckList).checks

    def diagnose(self, name: str) -> Diagnosis:
        """Run a check."""
        return self._connection.get(f"/doctor/{name}", Diagnosis, timeout=CHECK_SECONDS)

    def repair(self, name: str) -> Repair:
        """Repair what a check found, as far as it is safe."""
        return self._connection.post(f"/doctor/{name}/repair", {}, Repair, timeout=CHECK_SECONDS)
