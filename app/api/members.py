"""Members of a base: who may see it, and who may write there, where people sign in with an OpenID issuer."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api import principal
from app.api.known_base import known_base
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.auth.gate import Gate
from app.errors import AppError, RefusalCode
from app.store import members
from app.store.engine import Database
from app.text import clean

OWNER = "`subject@issuer`, as GET /api/session tells it; `*` is everybody who signs in."
OWNER_MAX_CHARS = 1_000


class Member(BaseModel):
    """A member. `write` may also upload, record facts and decide proposals, where their token allows it."""

    model_config = ConfigDict(from_attributes=True)

    owner: str
    role: Literal["read", "write"]
    added_by: str
    created_at: datetime


class MemberList(BaseModel):
    members: list[Member]


class NewMember(BaseModel):
    """Somebody and their role."""

    model_config = ConfigDict(extra="forbid")

    owner: str = Field(min_length=1, max_length=OWNER_MAX_CHARS, description=OWNER)
    role: Literal["read", "write"]

    @field_validator("owner")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("an owner is made of printable characters")
        return value


def router(database: Database, gate: Gate | None, auth: Literal["none", "token", "oidc"]) -> APIRouter:
    """The routes, bound to their parts."""
    routes = APIRouter(
        prefix="/api/bases/{base}/members",
        tags=["bases"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    async def counted() -> None:
        if auth != "oidc":
            message = f"Members count where people sign in with an issuer (AUTH=oidc); here AUTH is {auth}."
            raise AppError(RefusalCode.CONFLICT, message)

    @routes.get("")
    async def show(base_id: Annotated[str, Depends(known_base)]) -> MemberList:
        """The base's members."""
        found = await members.list_all(database, base_id)
        return MemberList(members=[Member.model_validate(member) for member in found])

    @routes.put("", dependencies=[Depends(counted)])
    async def put(
        base_id: Annotated[str, Depends(known_base)],
        body: NewMember,
        who: Annotated[Principal, Depends(principal.current)],
    ) -> Member:
        """Make somebody a member, or change their role. Holds within 5 seconds."""
        put = await members.put(database, base_id, body.owner, role=body.role, added_by=who.owner)
        if gate is not None:
            gate.members_changed()
        return Member.model_validate(put)

    @routes.delete("", status_code=204, dependencies=[Depends(counted)])
    async def remove(
        base_id: Annotated[str, Depends(known_base)],
        owner: Annotated[str, Query(min_length=1, max_length=OWNER_MAX_CHARS, description=OWNER)],
        who: Annotated[Principal, Depends(principal.current)],
    ) -> None:
        """End a membership. Holds within 5 seconds; a turn that runs is finished."""
        if not await members.remove(database, base_id, clean(owner), by=who.owner):
            raise AppError(RefusalCode.NOT_FOUND, "There is no such member in this base.")
        if gate is not None:
            gate.members_changed()

    return routes
