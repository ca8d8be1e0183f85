"""What operators do by hand: hosts, workunits, roles, roll-out, audit log, checks."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from cobblestone.api_schema.explanations import HostExplanation
from cobblestone.api_schema.hosts import Host, HostChanges, HostDetails, HostList
from cobblestone.api_schema.operation import (
    AuditEntry,
    AuditList,
    Check,
    CheckList,
    Diagnosis,
    Done,
    Found,
    FoundList,
    NewPassword,
    Reason,
    Repair,
    RetriedWorkunit,
    RoleBody,
    RollBackBody,
    RolledBack,
    Rollout,
    RolloutBody,
)
from cobblestone.api_schema.workunits import Workunit, WorkunitChanges, WorkunitDetails, WorkunitList
from cobblestone.sdk.connection import Connection

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
