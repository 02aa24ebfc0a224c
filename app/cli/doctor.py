"""turnstream doctor: is everything there that a turn needs? A table, a hint for what isn't, exit status 1 if any."""

import asyncio

from rich.console import Console
from rich.table import Table

from app.api.doctor import live_finding, model_findings, tool_findings
from app.cli.report import report
from app.errors import StartError
from app.llm.probe import Finding
from app.logs import configure_logging
from app.parts import build_live_log, model_check
from app.process import database_address
from app.settings import PREFIX, Settings, read
from app.store import migrate
from app.tools import registry

_COLOUR = {"ok": "green", "missing": "yellow", "unreachable": "red", "failed": "red"}


def run() -> int:
    """Look, print, and give the exit status."""
    with report():
        settings = read()
    configure_logging("error")
    outside = asyncio.run(_outside(settings))
    findings = [*_database(settings), *tool_findings(registry.load(settings.tools)), *outside]
    _print(findings)
    return 1 if any(finding.verdict != "ok" for finding in findings) else 0


async def _outside(settings: Settings) -> list[Finding]:
    """What is asked over the network: the live log and the model."""
    live = build_live_log(settings, "doctor")
    return [await live_finding(live), *await model_findings(model_check(settings))]


def _database(settings: Settings) -> list[Finding]:
    where = "configured" if settings.database_url is not None else f"embedded, under {settings.data_dir}"
    try:
        with database_address(settings) as url:
            revision = migrate.current(url)
    except StartError as error:
        hint = f"Check {PREFIX}DATABASE_URL, or leave it unset for the embedded server."
        return [Finding("database", "failed", str(error), hint)]
    return [Finding("database", "ok", where), Finding("migrations", "ok", f"at revision {revision}")]


def _print(findings: list[Finding]) -> None:
    table = Table("what", "verdict", "seen", "what to do")
    for finding in findings:
        verdict = f"[{_COLOUR[finding.verdict]}]{finding.verdict}[/]"
        table.add_row(finding.subject, verdict, _plain(finding.note), _plain(finding.hint))
    Console(soft_wrap=True, width=160).print(table)


def _plain(text: str) -> str:
    """Text of a provider is no markup of ours."""
    return text.replace("[", "\\[")
