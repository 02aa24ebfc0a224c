"""The audit, for those who may do everything: who changed what. Nothing here, nor anywhere, changes it."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api import principal
from app.api.refusals import RESPONSES
from app.store import audit
from app.store.audit import Action, AuditFilter
from app.store.engine import Database
from app.text import clean


class AuditLine(BaseModel):
    """One change. `base` is the base's name at the time; `object_id` is of what was changed, of a member the owner."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: datetime
    who: str
    action: str
    base_id: str | None
    base: str | None
    object_id: str | None
    detail: Annotated[dict[str, Any], Field(description="Ids, names, roles and counts; never a text.")]


class AuditPage(BaseModel):
    """Lines, newest first. Older ones are asked for with `before`, the id of the last line."""

    lines: list[AuditLine]


def router(database: Database) -> APIRouter:
    """The route, bound to the database."""
    routes = APIRouter(
        prefix="/api/audit", tags=["operations"], responses=RESPONSES, dependencies=[Depends(principal.current)]
    )

    @routes.get("")
    async def find(
        who: Annotated[str | None, Query(max_length=1_000, description="Who did it.")] = None,
        action: Action | None = None,
        base: Annotated[str | None, Query(max_length=63, description="The base's name at the time.")] = None,
        object_id: Annotated[str | None, Query(alias="object", max_length=1_000)] = None,
        before: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Lines older than this one.")] = None,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> AuditPage:
        """Who changed what, newest first."""
        who, base, object_id = (None if given is None else clean(given) for given in (who, base, object_id))
        asked = AuditFilter(who, action, base, object_id, before=before)
        found = await audit.find(database, asked, limit=limit)
        return AuditPage(lines=[AuditLine.model_validate(line) for line in found])

    return routes
