"""What operators do by hand: cancel, retry, block, roles, roll-out, audit log, checks."""

from __future__ import annotations

from collections.abc import Sequence

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
from cobblestone.sdk.connection import Connection

CHECK_SECONDS = 3600.0


class Operation:
    """The operator's hand in a running project; needs the scope ``manage``.  Ids that do not exist raise NotFoundError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def cancel_workunit(self, workunit_id: int) -> Done:
        """Stop a workunit.  Raises ConflictError when it is finished."""
        return self._connection.post(f"/workunits/{workunit_id}/cancel", {}, Done)

    def retry_workunit(self, workunit_id: int) -> RetriedWorkunit:
        """Try a workunit again.  Raises ConflictError when it has an answer."""
        return self._connection.post(f"/workunits/{workunit_id}/retry", {}, RetriedWorkunit)

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
