"""What this server is set to, for the settings page, and its doctor. Never a key, a password or a path of the machine.

The values are frozen and given by main.py: nothing here reads a setting.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from app.api import principal
from app.api.doctor import Doctor
from app.api.refusals import RESPONSES
from app.llm.probe import Verdict
from app.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """The chat model. `endpoint` is a host, None where the model answers in this process; `keyed`: a key is set."""

    name: str
    description: str
    endpoint: str | None
    keyed: bool
    extracts: bool


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """Limits that a person may run into. The last three are of each principal, None where there is no limit."""

    max_rounds: int
    message_max_chars: int
    answer_max_chars: int
    max_upload_bytes: int
    max_running_turns: int | None
    max_requests_per_minute: int | None
    max_tokens_per_minute: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """What the settings page shows. `embedding_model` is None where only full text is searched."""

    version: str
    prompt_version: int
    model: AnsweringModel
    embedding_model: str | None
    database: Literal["embedded", "configured"]
    live_log: Literal["memory", "redis"]
    auth: Literal["none", "token", "oidc"]
    limits: ShownLimits


class ModelInfo(BaseModel):
    """`endpoint` is a host, null where the model answers inside the server; `extracts`: it can read facts."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    description: str
    endpoint: str | None
    keyed: bool
    extracts: bool


class LimitsInfo(BaseModel):
    """The last three are of each principal, null where there is no limit."""

    model_config = ConfigDict(from_attributes=True)

    max_rounds: int
    message_max_chars: int
    answer_max_chars: int
    max_upload_bytes: int
    max_running_turns: int | None
    max_requests_per_minute: int | None
    max_tokens_per_minute: int | None


class SearchInfo(BaseModel):
    """`model` is the embedding model, null where full text is searched alone."""

    kind: Literal["full_text", "vectors"]
    model: str | None


class ToolInfo(BaseModel):
    """A tool that a turn may call; `writes`: only for those who may write."""

    name: str
    headline: str
    writes: bool


class SettingsInfo(BaseModel):
    """What this server is set to, without secrets."""

    version: str
    prompt_version: int
    model: ModelInfo
    search: SearchInfo
    database: Literal["embedded", "configured"]
    live_log: Literal["memory", "redis"]
    auth: Literal["none", "token", "oidc"]
    limits: LimitsInfo
    tools: list[ToolInfo]


class FindingInfo(BaseModel):
    """One thing that was looked at; `hint` says what to do where the verdict isn't ok."""

    model_config = ConfigDict(from_attributes=True)

    subject: str
    verdict: Verdict
    note: str
    hint: str


class Examination(BaseModel):
    """What the doctor saw; `ok` where nothing is wrong."""

    ok: bool
    findings: list[FindingInfo]
    ms: Annotated[int, Field(description="How long it took, in milliseconds.")]
    at: datetime


def router(shown: Shown, registry: Registry, doctor: Doctor) -> APIRouter:
    """The routes, bound to what they show."""
    routes = APIRouter(
        prefix="/api/settings", tags=["operations"], responses=RESPONSES, dependencies=[Depends(principal.current)]
    )
    told = _told(shown, registry)

    @routes.get("")
    async def settings() -> SettingsInfo:
        """What this server is set to, without secrets."""
        return told

    @routes.post("/doctor")
    async def examine() -> Examination:
        """Look at the database, the tools and the model, one examination at a time. Costs a few of its tokens."""
        began = time.monotonic()
        findings = await doctor.examine()
        return Examination(
            ok=all(finding.verdict == "ok" for finding in findings),
            findings=[FindingInfo.model_validate(finding) for finding in findings],
            ms=round((time.monotonic() - began) * 1000),
            at=datetime.now(UTC),
        )

    return routes


def _told(shown: Shown, registry: Registry) -> SettingsInfo:
    tools = [
        ToolInfo(name=tool.name, headline=tool.description.split("\n", 1)[0], writes=tool.writes)
        for tool in registry.chat_tools()
    ]
    return SettingsInfo(
        version=shown.version,
        prompt_version=shown.prompt_version,
        model=ModelInfo.model_validate(shown.model),
        search=SearchInfo(
            kind="full_text" if shown.embedding_model is None else "vectors", model=shown.embedding_model
        ),
        database=shown.database,
        live_log=shown.live_log,
        auth=shown.auth,
        limits=LimitsInfo.model_validate(shown.limits),
        tools=tools,
    )
