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
from importlib.metadata import version
from pathlib import Path
from typing import Any

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
from app.api.doctor import Doctor
from app.api.mcp_http import McpDoor
from app.api.origins import Origins
from app.auth.rates import Lane
from app.errors import AppError
from app.knowledge.bulk import ingest_paths
from app.knowledge.fact_rows import FactFileError
from app.knowledge.facts_import import facts_files, import_file
from app.knowledge.ingest import Ingest, IngestLimits
from app.llm.openai_chat import EndpointConfig
from app.metrics import Metrics
from app.parts import (
    build_extraction,
    build_gate,
    build_live_log,
    build_model,
    build_rates,
    build_tracing,
    build_vectors,
    describe_model,
    model_check,
    prompt_words,
    turn_parts,
    unconfigured,
)
from app.settings import Settings, is_loopback
from app.store import bases as stored_bases
from app.store.engine import Database, StoreUnavailable
from app.tools import registry
from app.turn.keeping import Keeping
from app.turn.supervisor import Supervisor

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
            rates=self.rates,
        )
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
        owners = (self.supervisor, self.live, self.ingest, self.extraction, self.keeping)
        workers = [owner.healthy for owner in owners]
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
