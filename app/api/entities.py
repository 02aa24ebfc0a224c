"""Entities of a base: list, look at with their facts, merge. Source: DESIGN section 4."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api import principal
from app.api.facts import FactList, Moments, moments, shown_page
from app.api.known_base import known_base
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.errors import AppError, RefusalCode
from app.knowledge import corrections
from app.knowledge.fact_rows import words
from app.store import entities, facts
from app.store.engine import Database
from app.store.entities import CountedEntity, EntityFilter
from app.store.facts import FactFilter
from app.text import clean

MAX_FACTS = 200
"""Facts that an entity is shown with; its list of facts pages through all."""


class Entity(BaseModel):
    """An entity. `merged_into` is the entity that took its names and facts; null while it stands for itself."""

    id: str
    name: str
    aliases: list[str]
    type: str
    disambiguator: str
    merged_into: str | None
    created_at: datetime
    fact_count: int


class EntityList(BaseModel):
    entities: list[Entity]
    total: int


class EntityDetail(Entity, FactList):
    """An entity with the facts in which it is subject or object; `total` counts them where the list is cut."""


class Merge(BaseModel):
    model_config = ConfigDict(extra="forbid")

    into: UUID = Field(description="The entity that takes the facts and the names.")


def router(database: Database) -> APIRouter:
    """The routes, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/entities",
        tags=["entities"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    async def known_entity(base_id: str, entity_id: str, clocks: Moments) -> CountedEntity:
        found = await entities.get(database, base_id, entity_id, at=clocks.at, as_of=clocks.as_of)
        if found is None or (clocks.as_of is not None and found.created_at >= clocks.as_of):
            raise AppError(RefusalCode.NOT_FOUND, "There is no such entity in this base.")
        return found

    @routes.get("")
    async def find(
        base_id: Annotated[str, Depends(known_base)],
        clocks: Annotated[Moments, Depends(moments)],
        q: Annotated[str | None, Query(max_length=200, description="In the name or an alias.")] = None,
        type_: Annotated[str | None, Query(alias="type", max_length=100)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> EntityList:
        """The base's entities by name. `at` and `as_of` say which facts are counted."""
        wanted = EntityFilter(clean(q or ""), words(type_) if type_ else None, clocks.at, clocks.as_of)
        found, total = await entities.find(database, base_id, wanted, limit=limit, offset=offset)
        return EntityList(entities=[Entity.model_validate(_told(one)) for one in found], total=total)

    @routes.get("/{entity_id}")
    async def detail(
        base_id: Annotated[str, Depends(known_base)], clocks: Annotated[Moments, Depends(moments)], entity_id: UUID
    ) -> EntityDetail:
        """One entity with its facts."""
        found = await known_entity(base_id, str(entity_id), clocks)
        wanted = FactFilter(about=found.entity.id, at=clocks.at, as_of=clocks.as_of)
        page = shown_page(await facts.find(database, base_id, wanted, limit=MAX_FACTS))
        return EntityDetail.model_validate(_told(found) | dict(page))

    @routes.post("/{entity_id}/merge")
    async def merge(
        base_id: Annotated[str, Depends(known_base)],
        entity_id: UUID,
        body: Merge,
        who: Annotated[Principal, Depends(principal.current)],
    ) -> Entity:
        """Make this entity and another one. The answer is the other, which took the facts and the names."""
        into = await corrections.merge(database, base_id, str(entity_id), str(body.into), by=who.owner)
        found = await known_entity(base_id, into.id, Moments(None, None))
        return Entity.model_validate(_told(found))

    return routes


def _told(found: CountedEntity) -> dict[str, object]:
    entity = found.entity
    return {
        "id": entity.id,
        "name": entity.name,
        "aliases": list(entity.aliases),
        "type": entity.type,
        "disambiguator": entity.disambiguator,
        "merged_into": entity.merged_into,
        "created_at": found.created_at,
        "fact_count": found.fact_count,
    }
