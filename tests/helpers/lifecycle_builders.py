"""Short ways to build workunits and results with sane values, for tests of the life cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cobblestone.domain.values import DAY, AppId, HostId, ResultId, WorkunitId
from cobblestone.domain.work import (
    FileDeleteState,
    JobLimits,
    Outcome,
    ReplicationRules,
    Result,
    ServerState,
    ValidateState,
    Workunit,
    result_name,
)
from cobblestone.policy.lifecycle.states import WorkunitView

NOW = 1_000_000.0
DELAY_BOUND = 7 * DAY

_RULE_FIELDS = frozenset(ReplicationRules.__dataclass_fields__)


def a_workunit(**values: Any) -> Workunit:
    """A workunit with quorum 2; fields of the replication rules may be given directly."""
    rules = ReplicationRules(
        min_quorum=2, target_nresults=2, max_error_results=2, max_total_results=6, max_success_results=4
    )
    rules = replace(rules, **{name: values.pop(name) for name in list(values) if name in _RULE_FIELDS})
    defaults: dict[str, Any] = {
        "id": WorkunitId(1),
        "name": "wu",
        "app_id": AppId(1),
        "create_time": NOW - 100,
        "transition_time": NOW,
        "limits": JobLimits(delay_bound=DELAY_BOUND),
        "rules": rules,
    }
    return Workunit(**(defaults | values))


def a_result(number: int, server_state: ServerState = ServerState.UNSENT, **values: Any) -> Result:
    """Result number ``number`` (id = 100 + number) of `a_workunit`, with the times that its state needs."""
    defaults: dict[str, Any] = {
        "id": ResultId(100 + number),
        "name": result_name("wu", number),
        "workunit_id": WorkunitId(1),
        "app_id": AppId(1),
        "server_state": server_state,
        "create_time": NOW - 90,
    }
    if server_state in (ServerState.IN_PROGRESS, ServerState.OVER):
        defaults |= {"host_id": HostId(number), "sent_time": NOW - 50, "report_deadline": NOW + 500}
    return Result(**(defaults | values))


def unsent(number: int, **values: Any) -> Result:
    return a_result(number, **values)


def in_progress(number: int, **values: Any) -> Result:
    return a_result(number, ServerState.IN_PROGRESS, **values)


def over(number: int, outcome: Outcome, **values: Any) -> Result:
    return a_result(number, ServerState.OVER, **({"outcome": outcome} | values))


def success(number: int, validate_state: ValidateState = ValidateState.INIT, **values: Any) -> Result:
    values = {"received_time": NOW - 10, "validate_state": validate_state} | values
    return over(number, Outcome.SUCCESS, **values)


def valid(number: int, **values: Any) -> Result:
    return success(number, ValidateState.VALID, **values)


def client_error(number: int, **values: Any) -> Result:
    values = {"exit_status": 1, "validate_state": ValidateState.INVALID, "received_time": NOW - 10} | values
    return over(number, Outcome.CLIENT_ERROR, **values)


def no_reply(number: int, **values: Any) -> Result:
    return over(number, Outcome.NO_REPLY, **({"report_deadline": NOW - 1} | values))


def with_files(result: Result, state: FileDeleteState) -> Result:
    return replace(result, file_delete_state=state)


def a_view(*results: Result, **workunit: Any) -> WorkunitView:
    return WorkunitView(workunit=a_workunit(**workunit), results=results)
