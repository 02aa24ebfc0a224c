"""turnstream doctor: is everything there that a turn needs? A table, a hint for what isn't, exit status 1 if any."""

import asyncio

from rich.console import Console
from rich.table import Table

from app.cli.report import report
from app.errors import StartError
from app.llm.probe import Finding, probe
from app.main import OFFLINE, build_model, unconfigured
from app.serve import configure_logging, database_address
from app.settings import PREFIX, Settings, read
from app.store import migrate
from app.tools import registry

_COLOUR = {"ok": "green", "missing": "yellow", "unreachable": "red", "failed": "red"}


def run() -> int:
    """Look, print, and give the exit status."""
    with report():
        settings = read()
    configure_logging("error")
    findings = [*_database(settings), *_tools(settings), *asyncio.run(_model(settings))]
    _print(findings)
    return 1 if any(finding.verdict != "ok" for finding in findings) else 0


def _database(settings: Settings) -> list[Finding]:
    where = "configured" if settings.database_url is not None else f"embedded, under {settings.data_dir}"
    try:
        with database_address(settings) as url:
            revision = migrate.current(url)
    except StartError as error:
        hint = f"Check {PREFIX}DATABASE_URL, or leave it unset for the embedded server."
        return [Finding("database", "failed", str(error), hint)]
    return [Finding("database", "ok", where), Finding("migrations", "ok", f"at revision {revision}")]


def _tools(settings: Settings) -> list[Finding]:
    loaded = registry.load(settings.tools)
    hint = f"Check {PREFIX}TOOLS and the package that ships the tool."
    faults = [Finding(f"tool {fault.name}", "failed", fault.reason, hint) for fault in loaded.errors]
    return [Finding("tools", "ok", ", ".join(loaded.names())), *faults]


async def _model(settings: Settings) -> list[Finding]:
    if settings.llm_base_url is None:
        return [Finding("model", "ok", OFFLINE)]
    missing = unconfigured(settings)
    if missing is not None:
        return [Finding("model", "failed", missing, f"Set {PREFIX}LLM_MODEL.")]
    model = build_model(settings)
    try:
        found = await probe(model)
    finally:
        await model.aclose()
    key = "with the key ***" if settings.llm_api_key is not None else "without a key"
    return [Finding("model", "ok", f"{model.origin}, {key}"), *found]


def _print(findings: list[Finding]) -> None:
    table = Table("what", "verdict", "seen", "what to do")
    for finding in findings:
        verdict = f"[{_COLOUR[finding.verdict]}]{finding.verdict}[/]"
        table.add_row(finding.subject, verdict, _plain(finding.note), _plain(finding.hint))
    Console(soft_wrap=True, width=160).print(table)


def _plain(text: str) -> str:
    """Text of a provider is no markup of ours."""
    return text.replace("[", "\\[")
