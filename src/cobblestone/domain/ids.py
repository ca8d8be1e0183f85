"""Identifiers.  Distinct types, so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType

UserId = NewType("UserId", int)
TeamId = NewType("TeamId", int)
HostId = NewType("HostId", int)
AppId = NewType("AppId", int)
AppVersionId = NewType("AppVersionId", int)
WorkunitId = NewType("WorkunitId", int)
ResultId = NewType("ResultId", int)
BatchId = NewType("BatchId", int)
