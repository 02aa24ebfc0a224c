"""Proposals of a base: facts that `remember` and extraction propose, and a person's nod or refusal."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict

from app.api import principal
from app.api.known_base import known_base
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.knowledge import corrections
from app.store import proposals
from app.store.engine import Database
from app.store.proposals import ProposalOrigin, ProposalStatus


class Proposal(BaseModel):
    """A fact that waits, or that was decided. `fact` is a row as `POST /facts` takes it; `sentence` is its source.

    `fact_id` is the fact that a nod recorded, or found recorded already.
    """

    model_config = ConfigDict(from_attributes=True)

    id: str
    fact: dict[str, Any]
    sentence: str
    chunk_id: str | None
    origin: ProposalOrigin
    proposed_by: str
    turn_id: str | None
    status: ProposalStatus
    decided_by: str | None
    decided_at: datetime | None
    fact_id: str | None
    created_at: datetime


class ProposalList(BaseModel):
    proposals: list[Proposal]
    total: int


class Nod(BaseModel):
    """What a person says with a nod: nothing, or the fact as it should read, a row as `facts import` takes it."""

    fact: dict[str, Any] | None = None


def router(database: Database) -> APIRouter:
    """The routes, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/proposals",
        tags=["proposals"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    @routes.get("")
    async def find(
        base_id: Annotated[str, Depends(known_base)],
        status: ProposalStatus | None = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> ProposalList:
        """The base's proposals, oldest first."""
        found, total = await proposals.find(database, base_id, status=status, limit=limit, offset=offset)
        return ProposalList(proposals=[Proposal.model_validate(one) for one in found], total=total)

    @routes.post("/{proposal_id}/accept")
    async def accept(
        base_id: Annotated[str, Depends(known_base)],
        proposal_id: UUID,
        who: Annotated[Principal, Depends(principal.current)],
        nod: Nod | None = None,
    ) -> Proposal:
        """Record the proposed fact, or the one given with the nod: a remembered sentence may come without any."""
        given = nod.fact if nod is not None else None
        decided = await corrections.accept(database, base_id, str(proposal_id), decided_by=who.owner, instead=given)
        return Proposal.model_validate(decided)

    @routes.post("/{proposal_id}/refuse")
    async def refuse(
        base_id: Annotated[str, Depends(known_base)],
        proposal_id: UUID,
        who: Annotated[Principal, Depends(principal.current)],
    ) -> Proposal:
        """Decide that it becomes no fact."""
        decided = await corrections.refuse(database, base_id, str(proposal_id), decided_by=who.owner)
        return Proposal.model_validate(decided)

    return routes
