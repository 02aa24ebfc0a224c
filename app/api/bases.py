"""Bases: list, make, describe, rename, delete. Source: DESIGN section 4."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api import principal
from app.api.known_base import known_base, no_base
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.errors import AppError, RefusalCode
from app.live.log import LiveLog
from app.store import bases
from app.store.bases import DEFAULT_BASE, NAME_PATTERN, BaseRecord
from app.store.engine import Database
from app.text import clean

Who = Annotated[Principal, Depends(principal.current)]

Name = Annotated[
    str, Field(pattern=NAME_PATTERN, description="Lower-case letters, digits, - and _, at most 63, as in an address.")
]


class Base(BaseModel):
    """A base; the counts are of current, readable documents and their passages."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    description: str
    created_at: datetime
    document_count: int
    chunk_count: int


class BaseList(BaseModel):
    bases: list[Base]


class NewBase(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Name
    description: str = Field("", max_length=2_000, description="What the base holds, for people.")

    @field_validator("description")
    @classmethod
    def _clean(cls, value: str) -> str:
        return clean(value).strip()


class BaseChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    description: str | None = Field(None, max_length=2_000, description="What the base holds, for people.")

    @field_validator("description")
    @classmethod
    def _clean(cls, value: str | None) -> str | None:
        return None if value is None else clean(value).strip()


def router(database: Database, live: LiveLog) -> APIRouter:
    """The routes, bound to their parts."""
    routes = APIRouter(
        prefix="/api/bases", tags=["bases"], responses=RESPONSES, dependencies=[Depends(principal.current)]
    )

    async def record(name: str) -> BaseRecord:
        found = await bases.get(database, name)
        if found is None:
            raise no_base(name)
        return found

    @routes.get("")
    async def list_all(who: Who) -> BaseList:
        """Every base that the caller may see, by name."""
        found = [base for base in await bases.list_all(database) if who.on(base.id) is not None]
        return BaseList(bases=[Base.model_validate(base) for base in found])

    @routes.post("", status_code=201)
    async def create(body: NewBase, who: Who) -> Base:
        """A new, empty base."""
        made = await bases.create(database, body.name, description=body.description, by=who.owner)
        if made is None:
            raise _taken(body.name)
        return Base.model_validate(made)

    @routes.get("/{base}", dependencies=[Depends(known_base)])
    async def detail(base: str) -> Base:
        """One base."""
        return Base.model_validate(await record(base))

    @routes.patch("/{base}", dependencies=[Depends(known_base)])
    async def change(base: str, body: BaseChange, who: Who) -> Base:
        """Rename or describe a base. `default` keeps its name."""
        known = await record(base)
        if body.name is not None and body.name != known.name and known.name == DEFAULT_BASE:
            raise AppError(RefusalCode.CONFLICT, f"The base {DEFAULT_BASE!r} keeps its name.")
        wanted = {"new_name": body.name, "description": body.description}
        if not await bases.change(database, known.name, **wanted, by=who.owner):
            raise _taken(body.name or known.name)
        return Base.model_validate(await record(body.name or known.name))

    @routes.delete("/{base}", status_code=204, dependencies=[Depends(known_base)])
    async def delete(base: str, who: Who) -> None:
        """Delete a base with its documents and conversations. `default` stays."""
        known = await record(base)
        if known.name == DEFAULT_BASE:
            raise AppError(
                RefusalCode.CONFLICT, f"The base {DEFAULT_BASE!r} always exists; delete its documents instead."
            )
        await live.forget(await bases.delete(database, known.name, by=who.owner) or ())

    return routes


def _taken(name: str) -> AppError:
    return AppError(RefusalCode.CONFLICT, f"A base {name!r} exists already.")
