"""What a base's graph holds, counted: where a person begins who doesn't know its entities yet."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict

from app.api import principal
from app.api.known_base import known_base
from app.api.refusals import RESPONSES
from app.store import overview as stored
from app.store.engine import Database


class TypeCount(BaseModel):
    """A type of entity, "" where nobody said."""

    model_config = ConfigDict(from_attributes=True)

    type: str
    entities: int


class Leader(BaseModel):
    """An entity with the number of facts in which it is subject or object."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    type: str
    disambiguator: str
    fact_count: int


class Overview(BaseModel):
    """Counts of what is believed now. `entities` and `types` are of those that a fact is about."""

    model_config = ConfigDict(from_attributes=True)

    entities: int
    facts: int
    pending_proposals: int
    types: list[TypeCount]
    leaders: list[Leader]


def router(database: Database) -> APIRouter:
    """The route, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/overview",
        tags=["facts"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    @routes.get("")
    async def overview(
        base_id: Annotated[str, Depends(known_base)], leaders: Annotated[int, Query(ge=0, le=100)] = 24
    ) -> Overview:
        """What the graph holds, with the entities that most facts are about."""
        return Overview.model_validate(await stored.overview(database, base_id, leaders=leaders))

    return routes
