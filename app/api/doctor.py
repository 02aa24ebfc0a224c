"""What `turnstream doctor` and the settings page's button look at, as findings.

Decides how the model, the tools and a running server's database are examined. What an endpoint can do is asked in
app/llm/probe.py; no finding holds a key or a password.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from app.errors import AppError, RefusalCode
from app.live.log import LiveLog, LogUnavailable
from app.llm.model import Model
from app.llm.probe import Finding, probe
from app.store import migrate
from app.store.engine import Database, StoreUnavailable
from app.store.revision import revision
from app.tools.registry import Registry

BUSY_RETRY_S = 5
"""When to ask again while somebody else's examination runs."""


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """How the configured model is examined.

    `make` gives a client of its own, closed afterwards: the one that answers may have learnt to leave out what the
    examination is about. It is None where there is nothing to ask; `note` then says what answers instead. `unusable`
    says why the settings can't be used, None where they can. `timeout_s` ends the asking.
    """

    make: Callable[[], Model] | None
    note: str
    unusable: str | None = None
    keyed: bool = False
    timeout_s: float = 60.0


class Doctor:
    """The examination of a running server, one at a time: each costs a few tokens of the model."""

    def __init__(self, database: Database, live: Callable[[], LiveLog], registry: Registry, check: ModelCheck) -> None:
        self._database = database
        self._live = live
        self._registry = registry
        self._check = check
        self._examining = asyncio.Lock()

    async def examine(self) -> list[Finding]:
        """Look at everything there is.

        Raises:
            AppError: CONFLICT while another examination runs.
        """
        if self._examining.locked():
            message = "The doctor is looking already; wait for that examination to end."
            raise AppError(RefusalCode.CONFLICT, message, retry_after_s=BUSY_RETRY_S)
        async with self._examining:
            kept = [*await database_findings(self._database), await live_finding(self._live())]
            return [*kept, *tool_findings(self._registry), *await model_findings(self._check)]


async def database_findings(database: Database) -> list[Finding]:
    """Whether the database answers, and whether its schema is the one that this code knows."""
    try:
        at = await revision(database)
    except StoreUnavailable as error:
        hint = "Look at the server's log, and whether the database runs and takes connections."
        return [Finding("database", "failed", error.message, hint)]
    newest = await asyncio.to_thread(migrate.head)
    answers = Finding("database", "ok", "answers")
    if at == newest:
        return [answers, Finding("migrations", "ok", f"at revision {at}")]
    hint = "Restart every server on the newest version, which brings the schema up."
    return [answers, Finding("migrations", "failed", f"at revision {at}, and this version knows {newest}", hint)]


async def live_finding(live: LiveLog) -> Finding:
    """Whether the live log can carry frames; asked over connections of its own, closed afterwards."""
    try:
        async with live.running():
            return Finding("live log", "ok", live.where)
    except LogUnavailable as error:
        hint = "Check TURNSTREAM_REDIS_URL; leave it unset where there is one process."
        return Finding("live log", "unreachable", error.message, hint)


def tool_findings(registry: Registry) -> list[Finding]:
    """Which tools are there, and which of the configured ones are not."""
    hint = "Check TURNSTREAM_TOOLS and the package that ships the tool."
    faults = [Finding(f"tool {fault.name}", "failed", fault.reason, hint) for fault in registry.errors]
    return [Finding("tools", "ok", ", ".join(registry.names())), *faults]


async def model_findings(check: ModelCheck) -> list[Finding]:
    """What answers, and what its endpoint can do."""
    if check.unusable is not None:
        return [Finding("model", "failed", check.unusable, "Set TURNSTREAM_LLM_MODEL.")]
    if check.make is None:
        return [Finding("model", "ok", check.note)]
    model = check.make()
    key = "with the key ***" if check.keyed else "without a key"
    configured = Finding("model", "ok", f"{model.origin}, {key}")
    try:
        async with asyncio.timeout(check.timeout_s):
            return [configured, *await probe(model)]
    except TimeoutError:
        hint = "It may be loading the model, or be too slow for a conversation; look at the endpoint's own log."
        return [configured, Finding("endpoint", "failed", f"no answer within {check.timeout_s:g} s", hint)]
    finally:
        await model.aclose()
