"""What operators do: tokens, accounts, teams, news, credit, hosts, workunits, roles, the audit log, checks."""

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
        """Make a token for ``days`` days, or until it is revoked.  Its text is shown only now.

        ``share``: when several submitters have jobs waiting, computers are divided among them in this proportion.
        """
        body = {"name": name, "scopes": list(scopes), "days": days, "share": share}
        return self._connection.post("/tokens", body, CreatedToken)

    def tokens(self) -> list[Token]:
        """All tokens, the newest first."""
        return self._connection.get("/tokens", TokenList).tokens

    def revoke_token(self, token_id: int) -> Token:
        """Make a token useless.  Raises NotFoundError."""
        return self._connection.delete(f"/tokens/{token_id}", Token)

    def create_user(self, email: str, name: str, *, password: str = "") -> CreatedUser:
        """Make an account; without a password clients attach with its authenticator, which is shown only now."""
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
        """List accounts, the newest first; ``before``: only those with a smaller id, to go on from there."""
        return self._connection.get(
            "/users", UserList, limit=limit, before=before, role=role, blocked=blocked
        ).users

    def user(self, user_id: int) -> UserDetails:
        """Describe an account.  Raises NotFoundError."""
        return self._connection.get(f"/users/{user_id}", UserDetails)

    def change_user(self, user_id: int, changes: UserChanges) -> UserDetails:
        """Change what the owner of an account says and shows.  Raises NotFoundError."""
        return self._connection.patch(f"/users/{user_id}", changes, UserDetails)

    def create_team(self, name: str, founder: int) -> Team:
        """Make a team; its founder joins it.  Raises NotFoundError, ConflictError."""
        return self._connection.post("/teams", NewTeam(name=name, founder=founder), Team)

    def teams(self) -> list[Team]:
        """All teams."""
        return self._connection.get("/teams", TeamList).teams

    def join_team(self, team: str, user_id: int) -> Team:
        """Put a user into a team, which is given by name or id.  Raises NotFoundError."""
        known = self.teams()
        fits = [each for each in known if each.name.lower() == team.lower() or str(each.id) == team]
        if not fits:
            raise NotFoundError(
                f"There is no team {team!r}. Known: {', '.join(each.name for each in known) or 'none'}."
            )
        return self._connection.post(f"/teams/{fits[0].id}/members", TeamMember(user=user_id), Team)

    def add_news(self, title: str, text: str) -> News:
        """Publish a piece of news: clients show it as a notice."""
        return self._connection.post("/news", NewNews(title=title, text=text), News)

    def news(self, *, limit: int = 100, before: int | None = None) -> list[News]:
        """List news, the newest first; ``before``: only those with a smaller id."""
        return self._connection.get("/news", NewsList, limit=limit, before=before).news

    def news_item(self, news_id: int) -> News:
        """Read a piece of news.  Raises NotFoundError."""
        return self._connection.get(f"/news/{news_id}", News)

    def edit_news(self, news_id: int, *, title: str | None = None, text: str | None = None) -> News:
        """Edit a piece of news; clients that have shown it do not show it again.  Raises NotFoundError."""
        return self._connection.patch(f"/news/{news_id}", NewsChanges(title=title, text=text), News)

    def withdraw_news(self, news_id: int) -> News:
        """Take a piece of news off the pages and the feed.  Raises NotFoundError."""
        return self._connection.delete(f"/news/{news_id}", News)

    def explain_credit(self, result: str) -> CreditExplanation:
        """How the credit of a result (id or name) was computed.  Raises NotFoundError."""
        return self._connection.get(f"/credit/results/{quote(result, safe='')}", CreditExplanation)

    def explain_host(self, host_id: int) -> HostExplanation:
        """Return what a computer would get if it asked now, and why not more.  Raises NotFoundError."""
        return self._connection.get(f"/explain/hosts/{host_id}", HostExplanation)

    def explain_workunit(self, workunit: str) -> WorkunitExplanation:
        """Return what becomes of a workunit (id or name).  Raises NotFoundError."""
        return self._connection.get(f"/explain/workunits/{quote(workunit, safe='')}", WorkunitExplanation)

    def explain_result(self, result: str) -> ResultExplanation:
        """Return what became of a result (id or name).  Raises NotFoundError."""
        return self._connection.get(f"/explain/results/{quote(result, safe='')}", ResultExplanation)

    def audit_ledger(self) -> LedgerAudit:
        """Compute every grant, total and average again from the ledger."""
        return self._connection.get("/credit/audit", LedgerAudit, timeout=AUDIT_SECONDS)

    def correct_credit(self, result: str, amount: float, reason: str) -> LedgerEntry:
        """Correct the credit of a result by a further entry; negative takes it back.  Raises NotFoundError, ConflictError."""
        body = NewCorrection(result=result, amount=amount, reason=reason)
        return self._connection.post("/credit/corrections", body, LedgerEntry)

    def credit_systems(self) -> list[CreditSystem]:
        """Return the credit systems that an app can choose."""
        return self._connection.get("/credit/systems", CreditSystemList).systems

    def trickles(self, *, after: int = 0) -> list[Trickle]:
        """Return what running jobs have sent, oldest first; ``after``: only those behind this number."""
        found: list[Trickle] = []
        while page := self._connection.get(
            "/trickles", TrickleList, after=found[-1].id if found else after, limit=PAGE
        ).trickles:
            found += page
        return found

    def send_trickle(self, result: str, text: str) -> SentTrickle:
        """Send a message to a running job.  Raises NotFoundError or ConflictError when it does not run."""
        return self._connection.post("/trickles", NewTrickle(result=result, text=text), SentTrickle)

    def apply_scales(self, scales: Mapping[str, float], *, dry_run: bool = False) -> AppliedScales:
        """Set the scales of GPU-only apps' versions from published ones, by plan class; or only say what would change."""
        body = PublishedScales(scales=dict(scales), dry_run=dry_run)
        return self._connection.post("/scales", body, AppliedScales)


CHECK_SECONDS = 3600.0


class Operation:
    """The operator's hand in a running project; needs the scope ``manage``.  Ids that do not exist raise NotFoundError."""

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
        """List workunits, the newest first; ``before``: only those with a smaller id.

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
        """Change a workunit (id or name) for results that are not sent yet.  Raises ConflictError when it is finished."""
        return self._connection.patch(f"/workunits/{quote(workunit, safe='')}", changes, WorkunitDetails)

    def cancel_workunit(self, workunit_id: int) -> Done:
        """Stop a workunit.  Raises ConflictError when it is finished."""
        return self._connection.post(f"/workunits/{workunit_id}/cancel", {}, Done)

    def retry_workunit(self, workunit_id: int) -> RetriedWorkunit:
        """Try a workunit again.  Raises ConflictError when it has an answer."""
        return self._connection.post(f"/workunits/{workunit_id}/retry", {}, RetriedWorkunit)

    def hosts(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        user: int | None = None,
        blocked: bool | None = None,
    ) -> list[Host]:
        """List computers, the newest first; ``before``: only those with a smaller id."""
        return self._connection.get(
            "/hosts", HostList, limit=limit, before=before, user=user, blocked=blocked
        ).hosts

    def host(self, host_id: int) -> HostDetails:
        """Describe a computer."""
        return self._connection.get(f"/hosts/{host_id}", HostDetails)

    def change_host(self, host_id: int, changes: HostChanges) -> HostDetails:
        """Change what the owner of a computer chose for it."""
        return self._connection.patch(f"/hosts/{host_id}", changes, HostDetails)

    def reset_host_errors(self, host_id: int) -> HostExplanation:
        """Forget the bad results of a computer, and what it lacked: it was repaired."""
        return self._connection.post(f"/hosts/{host_id}/reset_errors", {}, HostExplanation)

    def block(self, noun: str, number: int, reason: str) -> Done:
        """Give a ``host``, or the hosts of a ``user``, no more work; the volunteer reads the reason."""
        return self._connection.put(f"/{noun}s/{number}/block", Reason(reason=reason), Done)

    def unblock(self, noun: str, number: int) -> Done:
        """Give a ``host``, or the hosts of a ``user``, work again."""
        return self._connection.delete(f"/{noun}s/{number}/block", Done)

    def set_role(self, user_id: int, role: str) -> Done:
        """Make a user an ``operator``, or (empty) a volunteer again."""
        return self._connection.put(f"/users/{user_id}/role", RoleBody(role=role), Done)

    def reset_password(self, user_id: int) -> NewPassword:
        """Give a user a new password, which is shown only now."""
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
        """Let a version reach growing parts of the hosts.  Raises ConflictError for stages that do not grow."""
        body = RolloutBody(
            stages=list(stages),
            max_error_rate=max_error_rate,
            min_results=min_results,
            min_hours=min_hours,
        )
        return self._connection.post(f"/versions/{version_id}/rollout", body, Rollout)

    def hold_rollout(self, version_id: int) -> Rollout:
        """Give a version to no more hosts."""
        return self._connection.post(f"/versions/{version_id}/hold", {}, Rollout)

    def roll_back(self, version_id: int, *, abort_jobs: bool = False) -> RolledBack:
        """Withdraw a version in favour of the one before it."""
        return self._connection.post(
            f"/versions/{version_id}/roll_back", RollBackBody(abort_jobs=abort_jobs), RolledBack
        )

    def audit(
        self, *, limit: int = 50, before: int | None = None, target: str = "", actor: str = ""
    ) -> list[AuditEntry]:
        """Who did what, the newest first."""
        found = self._connection.get(
            "/audit", AuditList, limit=limit, before=before, target=target, actor=actor
        )
        return found.entries

    def search(self, text: str) -> list[Found]:
        """Users, hosts, batches, workunits and results by id, or by the beginning of a name."""
        return self._connection.get("/search", FoundList, q=text).found

    def checks(self) -> list[Check]:
        """Return the checks of the project's soundness."""
        return self._connection.get("/doctor", CheckList).checks

    def diagnose(self, name: str) -> Diagnosis:
        """Carry out a check."""
        return self._connection.get(f"/doctor/{name}", Diagnosis, timeout=CHECK_SECONDS)

    def repair(self, name: str) -> Repair:
        """Repair what a check found, as far as that is safe."""
        return self._connection.post(f"/doctor/{name}/repair", {}, Repair, timeout=CHECK_SECONDS)
