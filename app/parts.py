"""What the settings make: each part of the application by its few values. Knows no application and no server.

The commands that need a part by itself, such as the doctor and the harness, come here too.
"""

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from sqlalchemy import URL

from app.api.doctor import ModelCheck
from app.auth.gate import Gate
from app.auth.rates import Rates
from app.auth.token import TokenGate
from app.errors import StartError
from app.knowledge.backfill import Backfill
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
from app.settings import PREFIX, Settings
from app.store.engine import Database
from app.store.jobs import conninfo
from app.tools.registry import Registry
from app.turn import prompts
from app.turn.lifecycle import TurnParts
from app.turn.policy import Limits
from app.turn.prompts import Wording
from app.turn.trace import Tracing

if TYPE_CHECKING:
    from app.turn.otel import Otel

OFFLINE = (
    "An offline extractive answerer: it quotes the best sentences of the base's passages and can't converse. "
    f"Set {PREFIX}LLM_BASE_URL and {PREFIX}LLM_MODEL to use a chat model."
)


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
    rates: Rates | None = None,
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
        charge=None if rates is None else rates.charge,
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
