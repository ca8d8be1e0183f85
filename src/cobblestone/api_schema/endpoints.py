"""The endpoints of the JSON API, each declared once: for the server, the Python package and OpenAPI.

The docstrings of the handlers in `cobblestone.server.api` say what each endpoint does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from cobblestone.api_schema import account_manager, apps, batches, operation, people, project
from cobblestone.api_schema.values import Body, PageQuery, Query, Reply
from cobblestone.domain.people import Scope

R = TypeVar("R", bound=Reply | bytes)

#: A part of a path that is a parameter: its name, and whether it is a number.
PLACE = re.compile(r"{(\w+)(:int)?}")


class Endpoint(msgspec.Struct, Generic[R], frozen=True):
    """One operation of the API: its path, permission, input and output."""

    method: str
    path: str  #: below `/api/v1`, in Starlette's notation
    scope: Scope | None  #: None: anybody may call it
    tag: str
    reply: type[R]  #: bytes: not JSON, see ``media_type``
    body: type[Body] | None = None
    query: type[Query] | None = None
    raw_body: bool = False  #: the body is a file
    media_type: str = "application/json"
    status: int = 200
    idempotent: bool = False  #: takes ``Idempotency-Key``
    problems: Sequence[int] = ()
    #: further statuses that it may answer with; 404 is implied where the path names something that must exist
    signed: bool = False  #: the answer is signed with what the token's owner and the project know

    def path_of(self, *places: int | str) -> str:
        """Return the path with values for its parameters, in their order.

        Raises:
            ValueError: there are more or fewer values than parameters.
        """
        names = (name for name, _ in PLACE.findall(self.path))
        values = dict(zip(names, places, strict=True))
        return PLACE.sub(lambda place: quote(str(values[place[1]]), safe=""), self.path)


# fmt: off
# Batches and jobs
CREATE_BATCH = Endpoint("POST", "/batches", Scope.SUBMIT, "batches", batches.BatchStatus,
    body=batches.NewBatch, status=201, idempotent=True, problems=(404, 409, 429, 507))
ADD_JOBS = Endpoint("POST", "/batches/{batch_id:int}/jobs", Scope.SUBMIT, "batches", batches.BatchStatus,
    body=batches.MoreJobs, problems=(409, 429, 507))
CLOSE_BATCH = Endpoint("POST", "/batches/{batch_id:int}/close", Scope.SUBMIT, "batches", batches.BatchStatus)
LIST_BATCHES = Endpoint("GET", "/batches", Scope.READ, "batches", batches.BatchList, query=PageQuery)
GET_BATCH = Endpoint("GET", "/batches/{batch_id:int}", Scope.READ, "batches", batches.BatchStatus)
LIST_JOBS = Endpoint("GET", "/batches/{batch_id:int}/jobs", Scope.READ, "batches", batches.JobList, query=batches.JobsQuery)
LIST_STUCK_JOBS = Endpoint("GET", "/batches/{batch_id:int}/stuck", Scope.READ, "batches", batches.JobList)
CANCEL_JOBS = Endpoint("POST", "/batches/{batch_id:int}/jobs/cancel", Scope.SUBMIT, "batches", batches.BatchStatus,
    body=batches.JobNames)
GET_JOB = Endpoint("GET", "/batches/{batch_id:int}/jobs/{job_id:int}", Scope.READ, "batches", batches.JobStatus)
GET_RESULTS = Endpoint("GET", "/batches/{batch_id:int}/results", Scope.READ, "batches", batches.ResultsPage,
    query=batches.ResultsQuery)
GET_EVENTS = Endpoint("GET", "/batches/{batch_id:int}/events", Scope.READ, "batches", bytes,
    query=batches.EventsQuery, media_type="text/event-stream")
GET_WEBHOOK = Endpoint("GET", "/batches/{batch_id:int}/webhook", Scope.READ, "batches", batches.WebhookStatus)
PUT_WEBHOOK = Endpoint("PUT", "/batches/{batch_id:int}/webhook", Scope.SUBMIT, "batches", batches.WebhookSecret,
    body=batches.NewWebhook)
DELETE_WEBHOOK = Endpoint("DELETE", "/batches/{batch_id:int}/webhook", Scope.SUBMIT, "batches", batches.WebhookStatus)
CANCEL_BATCH = Endpoint("POST", "/batches/{batch_id:int}/cancel", Scope.SUBMIT, "batches", batches.BatchStatus, problems=(409,))
RETRY_BATCH = Endpoint("POST", "/batches/{batch_id:int}/retry", Scope.SUBMIT, "batches", batches.BatchStatus,
    status=201, problems=(409, 429, 507))
RETIRE_BATCH = Endpoint("POST", "/batches/{batch_id:int}/retire", Scope.SUBMIT, "batches", batches.BatchStatus, problems=(409,))

# Files and outputs
PUT_FILE = Endpoint("PUT", "/files/{name}", Scope.SUBMIT, "files", apps.StoredFile,
    query=apps.PutQuery, raw_body=True, problems=(413, 507))
GET_FILE = Endpoint("GET", "/files/{name}", Scope.SUBMIT, "files", apps.StoredFile)
QUERY_FILES = Endpoint("POST", "/files/query", Scope.SUBMIT, "files", apps.FileQueryReply, body=apps.FileQuery)
GET_OUTPUT = Endpoint("GET", "/batches/{batch_id:int}/jobs/{job_id:int}/outputs/{name}", Scope.READ, "batches", bytes,
    media_type="application/octet-stream", problems=(503,))
GET_ZIP = Endpoint("GET", "/batches/{batch_id:int}/outputs.zip", Scope.READ, "batches", bytes, media_type="application/zip")

# Apps and their versions
CREATE_APP = Endpoint("POST", "/apps", Scope.MANAGE, "apps", apps.App,
    body=apps.NewApp, status=201, idempotent=True, problems=(404, 409))
LIST_APPS = Endpoint("GET", "/apps", Scope.READ, "apps", apps.AppList)
GET_APP = Endpoint("GET", "/apps/{name}", Scope.READ, "apps", apps.App)
PROPOSE_DEADLINE = Endpoint("GET", "/apps/{name}/deadline", Scope.READ, "apps", apps.DeadlineProposal)
CHANGE_APP = Endpoint("PATCH", "/apps/{name}", Scope.MANAGE, "apps", apps.App, body=apps.AppChanges)
ADD_VERSION = Endpoint("POST", "/apps/{name}/versions", Scope.MANAGE, "apps", apps.Version,
    body=apps.NewVersion, status=201, idempotent=True, problems=(409,))
LIST_VERSIONS = Endpoint("GET", "/apps/{name}/versions", Scope.READ, "apps", apps.VersionList, query=apps.VersionQuery)
CHANGE_VERSION = Endpoint("PATCH", "/versions/{version_id:int}", Scope.MANAGE, "apps", apps.Version, body=apps.VersionChanges)

# Code signing
GET_SIGNING_MANIFEST = Endpoint("GET", "/signatures", Scope.MANAGE, "signing", project.Manifest, query=project.ManifestQuery)
IMPORT_SIGNATURES = Endpoint("POST", "/signatures", Scope.MANAGE, "signing", project.SigningReply,
    body=project.Signatures, problems=(404,))
LIST_KEYS = Endpoint("GET", "/keys", Scope.READ, "signing", project.KeyList)
CHANGE_KEY = Endpoint("POST", "/keys", Scope.MANAGE, "signing", project.SigningReply, body=project.NewKey, problems=(404, 409))

# Accounts, teams, tokens, news; volunteers' own data
CREATE_USER = Endpoint("POST", "/users", Scope.MANAGE, "people", people.CreatedUser,
    body=people.NewUser, status=201, problems=(409,))
LIST_USERS = Endpoint("GET", "/users", Scope.MANAGE, "people", people.UserList, query=people.UsersQuery)
GET_USER = Endpoint("GET", "/users/{user_id:int}", Scope.MANAGE, "people", people.UserDetails)
CHANGE_USER = Endpoint("PATCH", "/users/{user_id:int}", Scope.MANAGE, "people", people.UserDetails, body=people.UserChanges)
SET_RIGHTS = Endpoint("PUT", "/users/{user_id:int}/rights", Scope.MANAGE, "people", people.UserDetails,
    body=people.Rights, problems=(409,))
WITHDRAW_RIGHTS = Endpoint("DELETE", "/users/{user_id:int}/rights", Scope.MANAGE, "people", people.UserDetails)
CREATE_TEAM = Endpoint("POST", "/teams", Scope.MANAGE, "people", people.Team,
    body=people.NewTeam, status=201, idempotent=True, problems=(404, 409))
LIST_TEAMS = Endpoint("GET", "/teams", Scope.READ, "people", people.TeamList, query=people.TeamsQuery)
JOIN_TEAM = Endpoint("POST", "/teams/{team_id:int}/members", Scope.MANAGE, "people", people.Team, body=people.TeamMember)
CREATE_TOKEN = Endpoint("POST", "/tokens", Scope.MANAGE, "tokens", people.CreatedToken,
    body=people.NewToken, status=201, problems=(404,))
LIST_TOKENS = Endpoint("GET", "/tokens", Scope.MANAGE, "tokens", people.TokenList)
REVOKE_TOKEN = Endpoint("DELETE", "/tokens/{token_id:int}", Scope.MANAGE, "tokens", people.Token, problems=(409,))
LIST_NEWS = Endpoint("GET", "/news", Scope.READ, "news", people.NewsList, query=PageQuery)
GET_NEWS = Endpoint("GET", "/news/{news_id:int}", Scope.READ, "news", people.News)
ADD_NEWS = Endpoint("POST", "/news", Scope.MANAGE, "news", people.News, body=people.NewNews, status=201, idempotent=True)
EDIT_NEWS = Endpoint("PATCH", "/news/{news_id:int}", Scope.MANAGE, "news", people.News, body=people.NewsChanges)
WITHDRAW_NEWS = Endpoint("DELETE", "/news/{news_id:int}", Scope.MANAGE, "news", people.News)
GET_OWN_ACCOUNT = Endpoint("GET", "/me", Scope.ACCOUNT, "own data", people.OwnAccount)
LIST_OWN_COMPUTERS = Endpoint("GET", "/me/computers", Scope.ACCOUNT, "own data", people.OwnComputers)
LIST_OWN_TASKS = Endpoint("GET", "/me/tasks", Scope.ACCOUNT, "own data", people.OwnTasks,
    query=people.TasksQuery, problems=(404,))

# Computers
LIST_HOSTS = Endpoint("GET", "/hosts", Scope.MANAGE, "hosts", operation.HostList, query=operation.HostsQuery)
GET_HOST = Endpoint("GET", "/hosts/{host_id:int}", Scope.MANAGE, "hosts", operation.HostDetails)
CHANGE_HOST = Endpoint("PATCH", "/hosts/{host_id:int}", Scope.MANAGE, "hosts", operation.HostDetails, body=operation.HostChanges)
RESET_HOST_ERRORS = Endpoint("POST", "/hosts/{host_id:int}/reset_errors", Scope.MANAGE, "hosts", operation.HostExplanation)

# Workunits
LIST_WORKUNITS = Endpoint("GET", "/workunits", Scope.READ, "workunits", batches.WorkunitList,
    query=batches.WorkunitsQuery, problems=(404,))
GET_WORKUNIT = Endpoint("GET", "/workunits/{workunit}", Scope.READ, "workunits", batches.WorkunitDetails)
CHANGE_WORKUNIT = Endpoint("PATCH", "/workunits/{workunit}", Scope.MANAGE, "workunits", batches.WorkunitDetails,
    body=batches.WorkunitChanges, problems=(409,))

# The project and its running jobs
GET_STATUS = Endpoint("GET", "/status", Scope.READ, "project", project.ProjectStatus)
LIST_PLAN_CLASSES = Endpoint("GET", "/plan_classes", Scope.READ, "project", project.PlanClassList)
LIST_TRICKLES = Endpoint("GET", "/trickles", Scope.READ, "trickles", project.TrickleList, query=project.TricklesQuery)
SEND_TRICKLE = Endpoint("POST", "/trickles", Scope.SUBMIT, "trickles", project.SentTrickle,
    body=project.NewTrickle, status=201, idempotent=True, problems=(404, 409))

# Browsers that compute
REGISTER_BROWSER = Endpoint("POST", "/browsers", None, "browsers", batches.BrowserToken,
    body=batches.NewBrowser, status=201, problems=(403, 429))
FETCH_BROWSER_JOBS = Endpoint("POST", "/browsers/work", Scope.COMPUTE, "browsers", batches.BrowserJobs,
    body=batches.BrowserWork, problems=(429,))
REPORT_BROWSER_JOB = Endpoint("POST", "/browsers/reports", Scope.COMPUTE, "browsers", batches.BrowserJobs,
    body=batches.BrowserReport, problems=(404, 429))
GET_BROWSER = Endpoint("GET", "/browsers/me", Scope.COMPUTE, "browsers", batches.BrowserStanding, problems=(429,))

# Credit
EXPLAIN_CREDIT = Endpoint("GET", "/credit/results/{result}", Scope.READ, "credit", operation.CreditExplanation)
CORRECT_CREDIT = Endpoint("POST", "/credit/corrections", Scope.MANAGE, "credit", operation.LedgerEntry,
    body=operation.NewCorrection, status=201, idempotent=True, problems=(404, 409))
AUDIT_LEDGER = Endpoint("GET", "/credit/audit", Scope.MANAGE, "credit", operation.LedgerAudit)
LIST_CREDIT_SYSTEMS = Endpoint("GET", "/credit/systems", Scope.READ, "credit", operation.CreditSystemList)
APPLY_SCALES = Endpoint("POST", "/scales", Scope.MANAGE, "project", operation.AppliedScales,
    body=operation.PublishedScales, problems=(503,))

# Credit told to account managers
ENROL_ACCOUNTS = Endpoint("POST", "/accounting/accounts", Scope.ACCOUNTING, "accounting", account_manager.EnrolledAccounts,
    body=account_manager.EnrolledKeys, problems=(429,), signed=True)
GET_JOB_GRANTS = Endpoint("POST", "/accounting/jobs", Scope.ACCOUNTING, "accounting", account_manager.JobGrants,
    body=account_manager.JobQuestions, problems=(429,), signed=True)
GET_TOTALS = Endpoint("POST", "/accounting/totals", Scope.ACCOUNTING, "accounting", account_manager.Totals,
    body=account_manager.TotalQuestions, problems=(429,), signed=True)
GET_DAY_SUMS = Endpoint("GET", "/accounting/sums", Scope.ACCOUNTING, "accounting", account_manager.DaySums,
    query=account_manager.SumsQuery, problems=(429,), signed=True)

# Explanations
EXPLAIN_HOST = Endpoint("GET", "/explain/hosts/{host_id:int}", Scope.READ, "explain", operation.HostExplanation)
EXPLAIN_WORKUNIT = Endpoint("GET", "/explain/workunits/{workunit}", Scope.READ, "explain", operation.WorkunitExplanation)
EXPLAIN_RESULT = Endpoint("GET", "/explain/results/{result}", Scope.READ, "explain", operation.ResultExplanation)

# What operators do by hand
CANCEL_WORKUNIT = Endpoint("POST", "/workunits/{workunit_id:int}/cancel", Scope.MANAGE, "operation", operation.Done,
    problems=(409,))
RETRY_WORKUNIT = Endpoint("POST", "/workunits/{workunit_id:int}/retry", Scope.MANAGE, "operation", operation.RetriedWorkunit,
    problems=(409,))
BLOCK_HOST = Endpoint("PUT", "/hosts/{host_id:int}/block", Scope.MANAGE, "operation", operation.Done, body=operation.Reason)
UNBLOCK_HOST = Endpoint("DELETE", "/hosts/{host_id:int}/block", Scope.MANAGE, "operation", operation.Done)
BLOCK_USER = Endpoint("PUT", "/users/{user_id:int}/block", Scope.MANAGE, "operation", operation.Done, body=operation.Reason)
UNBLOCK_USER = Endpoint("DELETE", "/users/{user_id:int}/block", Scope.MANAGE, "operation", operation.Done)
SET_ROLE = Endpoint("PUT", "/users/{user_id:int}/role", Scope.MANAGE, "operation", operation.Done,
    body=operation.RoleBody, problems=(409,))
RESET_PASSWORD = Endpoint("POST", "/users/{user_id:int}/password", Scope.MANAGE, "operation", operation.NewPassword)
DELETE_USER = Endpoint("DELETE", "/users/{user_id:int}", Scope.MANAGE, "operation", operation.Done)
START_ROLLOUT = Endpoint("POST", "/versions/{version_id:int}/rollout", Scope.MANAGE, "operation", operation.Rollout,
    body=operation.RolloutBody, problems=(409,))
HOLD_ROLLOUT = Endpoint("POST", "/versions/{version_id:int}/hold", Scope.MANAGE, "operation", operation.Rollout)
ROLL_BACK = Endpoint("POST", "/versions/{version_id:int}/roll_back", Scope.MANAGE, "operation", operation.RolledBack,
    body=operation.RollBackBody)
LIST_AUDIT = Endpoint("GET", "/audit", Scope.MANAGE, "operation", operation.AuditList, query=operation.AuditQuery)
SEARCH = Endpoint("GET", "/search", Scope.MANAGE, "operation", operation.FoundList, query=operation.SearchQuery)
LIST_CHECKS = Endpoint("GET", "/doctor", Scope.MANAGE, "operation", operation.CheckList)
DIAGNOSE = Endpoint("GET", "/doctor/{name}", Scope.MANAGE, "operation", operation.Diagnosis)
REPAIR = Endpoint("POST", "/doctor/{name}/repair", Scope.MANAGE, "operation", operation.Repair)
# fmt: on
