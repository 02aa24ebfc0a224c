"""Extraction of a base's facts by the configured model: start, how far, stop. Source: issue 4 item 2.

What it finds are proposals, which wait for a person's nod; nothing becomes a fact here.
"""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from app.api import principal
from app.api.known_base import known_base
from app.api.refusals import RESPONSES
from app.knowledge.jobs import ExtractionJobs


class FailureKind(BaseModel):
    """Passages that were given up for one reason; `message` is the newest one's."""

    model_config = ConfigDict(from_attributes=True)

    code: str
    chunks: int
    message: str


class Extraction(BaseModel):
    """How far a base is read. Passages: `total` of its current documents, `done` and `failed` of them.

    Facts: `proposed`, and `dropped` for what was no fact or doesn't stand in its passage. `running` while a job of
    the base waits or works; any server of the database may be the one that works.
    """

    model_config = ConfigDict(from_attributes=True)

    total: int
    done: int
    proposed: int
    dropped: int
    failed: int
    running: bool
    failures: Annotated[list[FailureKind], Field(description="Why passages were given up, the most frequent first.")]


class StartedExtraction(Extraction):
    """`job` is the id of the job that plans the reading."""

    job: int


def router(jobs: ExtractionJobs) -> APIRouter:
    """The routes, bound to their parts."""
    routes = APIRouter(
        prefix="/api/bases/{base}/extraction",
        tags=["facts"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    @routes.post("", status_code=202)
    async def start_extraction(base_id: Annotated[str, Depends(known_base)]) -> StartedExtraction:
        """Have every passage read that wasn't yet, or was given up. The answer comes before the work is done."""
        job = await jobs.start(base_id)
        progress = Extraction.model_validate(await jobs.progress(base_id))
        return StartedExtraction(job=job, **progress.model_dump())

    @routes.get("")
    async def extraction(base_id: Annotated[str, Depends(known_base)]) -> Extraction:
        """How far it is."""
        return Extraction.model_validate(await jobs.progress(base_id))

    @routes.post("/stop", status_code=202)
    async def stop_extraction(base_id: Annotated[str, Depends(known_base)]) -> Extraction:
        """Drop what waits and cut short what works. What was read stays; starting again goes on from there."""
        return Extraction.model_validate(await jobs.stop(base_id))

    return routes
