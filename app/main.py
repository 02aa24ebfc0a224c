"""The composition root: settings in, the application out. The only place that knows every part by name.

Settings stop here; each part gets the few values it needs. Parts live as long as the application's lifespan,
which starts them in order and ends them in the opposite one.
"""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from fastapi import FastAPI
from sqlalchemy import URL
from starlette.types import ASGIApp

from app.api import (
    about,
    access,
    audit,
    bases,
    chat,
    conversations,
    documents,
    embeddings,
    entities,
    extraction,
    facts,
    members,
    openai_compat,
    openapi_document,
    ops,
    overview,
    page,
    passages,
    proposals,
    refusals,
    request_ids,
    session,
    verdicts,
)
from app.api.body_size import BodySizes
from app.api.doctor import Doctor, ModelCheck
from app.api.mcp_http import McpDoor
from app.api.origins import Origins
from app.auth.gate import Gate
from app.auth.rates import Lane, Rates
from app.auth.token import TokenGate
from app.errors import AppError, StartError
from app.knowledge.backfill import Backfill
from app.knowledge.bulk import ingest_paths
from app.knowledge.fact_rows import FactFileError
from app.knowledge.facts_import import facts_files, import_file
from app.knowledge.ingest import Ingest, IngestLimits
from app.knowledge.jobs import ExtractionJobs, JobLimits
from app.knowledge.nearest import Nearest
from app.live.log import LiveLog
from app.live.memory import MemoryLog
from app.llm.capabilities import Capabilities
from app.llm.embeddings import EmbeddingConfig, Embeddings
from app.llm.extraction import ChatExtractor
from app.llm.extractive import Extractive
from app.llm.model import Model
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from app.metrics import Metrics
from app.settings import PREFIX, Settings, is_loopback
from app.store import bases as stored_bases
from app.store.engine import Database, StoreUnavailable
from app.store.jobs import conninfo
from app.tools import registry
from app.tools.registry import Registry
from app.turn import prompts
from app.turn.keeping import Keeping
from app.turn.lifecycle import TurnParts
from app.turn.policy import Limits
from app.turn.prompts import Wording
from app.turn.supervisor import Supervisor
from app.turn.trace import Tracing

if TYPE_CHECKING:
    from app.turn.otel import Otel

OFFLINE = (
    "An offline extractive answerer: it quotes the best sentences of the base's passages and can't converse. "
    f"Set {PREFIX}LLM_BASE_URL and {PREFIX}LLM_MODEL to use a chat model."
)

_log = structlog.get_logger(__name__)


class Application(FastAPI):
    """The application, with the two things its server must reach: end the streams, and know who answers."""

    def __init__(self, settings: Settings, database_url: str | URL, *, load: tuple[Path, ...] = ()) -> None:
        super().__init__(
            title="turnstream",
            version=version("turnstream"),
            description=openapi_document.DESCRIPTION,
            generate_unique_id_function=openapi_document.operation_id,
            lifespan=_lifespan,
            # the framework's own spans hold what was searched for, and its log records what exceptions say
            telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
            docs_url=None,  # the framework's page would fetch its script from somebody else's server
            redoc_url=None,
        )
        self.settings = settings
        self.load = load
        self.replica = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.database = Database(
            database_url,
            pool_size=settings.database_connections,
            statement_timeout_s=settings.statement_timeout_s,
            pooler=settings.database_pooler,
        )
        self.gate = build_gate(settings, self.database)
        self.rates = build_rates(settings)
        self.live = build_live_log(settings, self.replica)
        self.model = build_model(settings)
        self.ingest = Ingest(self.database, IngestLimits(max_bytes=settings.max_upload_bytes))
        self.vectors = build_vectors(settings, self.database)
        nearest = self.vectors.nearest if self.vectors is not None else None
        self.extraction = build_extraction(settings, self.database, database_url, self.model)
        self.keeping = Keeping(self.database, days=settings.retention_days)
        self.registry = registry.load(settings.tools)
        self.metrics = Metrics()
        self.tracing = build_tracing(settings, self.model.name, self.replica)
        parts = turn_parts(
            settings,
            self.database,
            self.model,
            self.registry,
            nearest=nearest,
            metrics=self.metrics,
            tracing=self.tracing,
        )
        if self.rates is not None:
            parts = replace(parts, charge=self.rates.charge)
        self.supervisor = Supervisor(parts, self.live, replica=self.replica)
        names, draining = (settings.host, *settings.allowed_hosts), lambda: self.supervisor.draining
        self.mcp = McpDoor(self.registry, self.database, allowed_hosts=names, draining=draining)
        self._watch()
        sizes = BodySizes(settings.message_max_chars)
        self.add_middleware(access.Access, gate=self.gate, database=self.database, rates=self.rates, sizes=sizes)
        # the last one is the first that a request meets
        self.add_middleware(Origins, loopback=is_loopback(settings.host), allowed=names)
        self._route()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi_document.complete(super().openapi(), protected=self.gate is not None)
        return self.openapi_schema

    def build_middleware_stack(self) -> ASGIApp:
        """The framework's stack, with every request named before its own answer to a fault of ours."""
        within = None if self.tracing is None else self.tracing.continuing
        return request_ids.RequestIds(super().build_middleware_stack(), within=within)

    def _watch(self) -> None:
        """What is in use now, read at each scrape."""
        watch, pool = self.metrics.watch, self.database
        watch("running_turns", "Turns that this process runs", lambda: self.supervisor.running_turns)
        watch("attached_readers", "Streams that are read here", lambda: self.live.attached_readers)
        watch("pool_connections_used", "Database connections that are out", lambda: pool.connections_used)
        watch("pool_connections", "Database connections that may be out", lambda: pool.size)

    def _route(self) -> None:
        settings, description = self.settings, describe_model(self.settings)
        refusals.install(self)
        chat_config = chat.ChatConfig(
            self.replica,
            settings.heartbeat_s,
            settings.message_max_chars,
            unconfigured(settings),
            settings.running_turns_limit,
        )
        self.include_router(chat.router(self.supervisor, self.live, self.database, chat_config))
        self.include_router(
            conversations.router(self.supervisor, self.live, self.database, heartbeat_s=settings.heartbeat_s)
        )
        self.include_router(bases.router(self.database, self.live))
        self.include_router(documents.router(self.database, self.ingest))
        for reading in (passages, entities, facts, overview, proposals, embeddings, verdicts, audit):
            self.include_router(reading.router(self.database))
        self.include_router(extraction.router(self.extraction))
        self.include_router(session.router(self.gate, settings.auth))
        self.include_router(members.router(self.database, self.gate, settings.auth))
        door = openai_compat.Door(self.supervisor, self.live, self.database, chat_config, self.model.name, description)
        self.include_router(openai_compat.router(door))
        self.router.routes.append(self.mcp.route)
        doctor = Doctor(self.database, lambda: build_live_log(settings, "doctor"), self.registry, model_check(settings))
        self.include_router(about.router(describe(settings, self.model.name), self.registry, doctor))
        self.include_router(ops.router(self.ready, self.metrics))
        self.include_router(page.router(self.model.name, description, f"http://{settings.host}:{settings.port}/"))
        access.check(self.routes)

    async def ready(self) -> str | None:
        """What keeps this process from taking questions; None when nothing does. Going down is the first reason of all:
        what is amiss meanwhile comes of it.
        """
        fault = None if self.supervisor.draining else await self._fault()
        return "shutting down" if self.supervisor.draining else fault

    async def _fault(self) -> str | None:
        workers = [self.supervisor.healthy, self.live.healthy, self.ingest.healthy, self.extraction.healthy]
        workers.append(self.keeping.healthy)
        if self.vectors is not None:
            workers.append(self.vectors.backfill.healthy)
        if self.gate is not None:
            workers.append(self.gate.healthy)
        if not all(workers):
            return "background tasks are not running"
        try:
            await stored_bases.find_id(self.database, stored_bases.DEFAULT_BASE)
        except StoreUnavailable:
            return "the database is not available"
        return None

    async def aclose(self) -> None:
        """Close the connections to models and database, once nothing uses them any more."""
        if self.vectors is not None:
            await self.vectors.embeddings.aclose()
        await self.model.aclose()
        await self.database.aclose()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)

    def begin_shutdown(self) -> None:
        """Called by the server before it waits for connections: admit nothing, end every stream."""
        self.supervisor.draining = True
        self.live.close_readers()


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    if not isinstance(app, Application):
        raise TypeError("this lifespan belongs to Application")
    about, prompt = describe_model(app.settings), prompt_words(app.settings).version
    _log.info("starting", replica=app.replica, model=app.model.name, about=about, prompt=prompt)
    try:
        async with (
            app.ingest.running(),
            app.extraction.running(),
            app.keeping.running(),
            app.vectors.backfill.running() if app.vectors is not None else nullcontext(),
            app.gate.running() if app.gate is not None else nullcontext(),
            app.rates.running() if app.rates is not None else nullcontext(),
            app.mcp.running(),
            app.live.running(),
            app.supervisor.active(drain_s=app.settings.drain_s),
        ):
            loading = asyncio.create_task(_load(app), name="load documents")
            try:
                yield
            finally:
                loading.cancel()
                await asyncio.gather(loading, return_exceptions=True)
    finally:
        await app.aclose()


async def _load(app: Application) -> None:
    """Take in the paths that the server was started with; what the base already holds is left alone.

    Documents first, then the files of facts among them: facts rest on the documents' passages.
    """
    if not app.load:
        return
    base = await stored_bases.ensure_default(app.database)
    async for result in ingest_paths(app.ingest, base.id, app.load):
        if result.error is not None:
            _log.warning("document_failed", path=str(result.path), reason=result.error)
    for path in await asyncio.to_thread(facts_files, app.load):
        try:
            report = await import_file(app.database, base.id, path)
        except (FactFileError, OSError, AppError) as error:
            _log.warning("facts_failed", path=str(path), reason=str(error))
        else:
            _log.info(
                "facts_loaded", path=str(path), added=report.added, known=report.known, failed=report.failed_count
            )
    _log.info("documents_loaded", paths=[str(p) for p in app.load])


def build_live_log(settings: Settings, replica: str) -> LiveLog:
    """The log that carries frames between processes, where a Redis is configured; else this process's own."""
    if settings.redis_url is None:
        return MemoryLog()
    from app.live.redis_streams import RedisLog  # noqa: PLC0415 - 0.05 s for one process alone

    return RedisLog(settings.redis_url.get_secret_value(), replica)


def build_gate(settings: Settings, database: Database) -> Gate | None:
    """Who is asked whose a credential is; None where nobody is asked who they are."""
    if settings.auth == "token":
        return TokenGate(database)
    if (config := settings.oidc) is None:
        return None
    from app.auth.oidc import OidcGate  # noqa: PLC0415 - 0.1 s of cryptography

    return OidcGate(database, config)


def build_rates(settings: Settings) -> Rates | None:
    """What each principal may do in a minute; None where nothing is limited."""
    if not settings.per_minute:
        return None
    return Rates(settings.per_minute, settings.redis_url.get_secret_value() if settings.redis_url else None)


def turn_parts(
    settings: Settings,
    database: Database,
    model: Model,
    tools: Registry,
    *,
    metrics: Metrics,
    tracing: Tracing | None = None,
    nearest: Nearest | None = None,
    words: Wording | None = None,
) -> TurnParts:
    """What turns are run with, by the settings; `words` are another version of the prompts than the configured one."""
    return TurnParts(
        database,
        model,
        tools,
        Limits(
            max_rounds=settings.max_rounds,
            retries=settings.llm_retries,
            retry_base_s=settings.llm_retry_base_s,
            retry_max_wait_s=settings.llm_retry_max_wait_s,
        ),
        nearest=nearest,
        words=words or prompt_words(settings),
        answer_max_chars=settings.answer_max_chars,
        show_reasoning=settings.show_reasoning,
        save_timeout_s=settings.save_timeout_s,
        metrics=metrics,
        tracing=tracing,
    )


def build_tracing(settings: Settings, model: str, replica: str) -> "Otel | None":
    """Traces, where they are asked for; else nothing of them is imported.

    Raises:
        StartError: the extra isn't installed.
    """
    if settings.traces == "off":
        return None
    try:
        from app.turn.otel import Endpoint, Otel  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        given = f"{PREFIX}TRACES is {settings.traces!r}"
        raise StartError(f"{given}, which needs more packages: pip install 'turnstream[otel]'") from error
    return Otel(Endpoint.at(settings.llm_base_url, model), version=version("turnstream"), replica=replica)


def prompt_words(settings: Settings) -> Wording:
    """The configured version of the prompts; the newest where none is."""
    return prompts.LATEST if settings.prompt_version is None else prompts.VERSIONS[settings.prompt_version]


def build_model(settings: Settings) -> Model:
    """The configured chat model, or the offline one."""
    if settings.llm_base_url is None:
        return Extractive()
    config = EndpointConfig(
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key.get_secret_value() if settings.llm_api_key else None,
        model=settings.llm_model or "",
        connect_timeout_s=settings.llm_connect_timeout_s,
        read_timeout_s=settings.llm_read_timeout_s,
    )
    return OpenAIChat(config, Capabilities())


@dataclass(frozen=True, slots=True)
class Vectors:
    """What a configured embedding model brings: its client, the search by it, and the worker that fills vectors in."""

    embeddings: Embeddings
    nearest: Nearest
    backfill: Backfill


def build_vectors(settings: Settings, database: Database) -> Vectors | None:
    """The search by meaning; None where no embedding model is configured."""
    if settings.embedding_base_url is None or settings.embedding_model is None:
        return None
    endpoint = EndpointConfig(
        base_url=settings.embedding_base_url,
        api_key=settings.embedding_api_key.get_secret_value() if settings.embedding_api_key else None,
        model=settings.embedding_model,
        connect_timeout_s=settings.llm_connect_timeout_s,
        read_timeout_s=60,
    )
    config = EmbeddingConfig(endpoint, retries=settings.llm_retries, retry_base_s=settings.llm_retry_base_s)
    client = Embeddings.open(config)
    return Vectors(client, Nearest(database, client), Backfill(database, client))


def build_extraction(settings: Settings, database: Database, url: str | URL, model: Model) -> ExtractionJobs:
    """The extraction of facts, which needs a chat model: without one it refuses to start and says why."""
    refusal = unconfigured(settings)
    if settings.llm_base_url is None:
        refusal = f"The offline model can't extract facts; set {PREFIX}LLM_BASE_URL and {PREFIX}LLM_MODEL."
    return ExtractionJobs(
        database,
        conninfo(url, pooler=database.pooler),
        ChatExtractor(model) if refusal is None else None,
        refusal=refusal or "",
        limits=JobLimits(retry_base_s=settings.llm_retry_base_s),
    )


def unconfigured(settings: Settings) -> str | None:
    """Why no model can answer; None when one can."""
    if settings.llm_base_url is not None and not settings.llm_model:
        return f"{PREFIX}LLM_BASE_URL is set but {PREFIX}LLM_MODEL is not; name the model to use there."
    return None


def describe_model(settings: Settings) -> str:
    """What answers, in a sentence; without secrets."""
    if settings.llm_base_url is None:
        return OFFLINE
    return unconfigured(settings) or f"{settings.llm_model} at an OpenAI-compatible endpoint."


def model_check(settings: Settings) -> ModelCheck:
    """How the doctor examines the model."""
    return ModelCheck(
        make=None if settings.llm_base_url is None else lambda: build_model(settings),
        note=OFFLINE,
        unusable=unconfigured(settings),
        keyed=settings.llm_api_key is not None,
    )


def describe(settings: Settings, model: str) -> about.Shown:
    """What the settings page shows; of an address only its host."""
    host = None if settings.llm_base_url is None else EndpointConfig(settings.llm_base_url, model).host
    return about.Shown(
        version=version("turnstream"),
        prompt_version=prompt_words(settings).version,
        model=about.AnsweringModel(
            name=model,
            description=describe_model(settings),
            endpoint=host,
            keyed=settings.llm_api_key is not None,
            extracts=host is not None and unconfigured(settings) is None,
        ),
        embedding_model=settings.embedding_model,
        database="embedded" if settings.database_url is None else "configured",
        live_log="memory" if settings.redis_url is None else "redis",
        auth=settings.auth,
        limits=about.ShownLimits(
            max_rounds=settings.max_rounds,
            message_max_chars=settings.message_max_chars,
            answer_max_chars=settings.answer_max_chars,
            max_upload_bytes=settings.max_upload_bytes,
            max_running_turns=settings.running_turns_limit,
            max_requests_per_minute=settings.per_minute.get(Lane.REQUESTS),
            max_tokens_per_minute=settings.per_minute.get(Lane.TOKENS),
        ),
    )


def create_app(settings: Settings, database_url: str | URL, *, load: tuple[Path, ...] = ()) -> Application:
    """Build the application. The database at the URL is migrated already; nothing is connected yet."""
    return Application(settings, database_url, load=load)
