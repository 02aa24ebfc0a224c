"""turnstream audit list, prune: who changed what. Works on the server's database."""

import json
from dataclasses import asdict, dataclass

import click
from rich.table import Table

from app.cli.report import table_console, with_database
from app.knowledge.moments import parse_span
from app.store import audit
from app.store.audit import Action, AuditFilter, AuditRecord


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines, and how they are shown."""

    who: str | None
    action: str | None
    base: str | None
    object_id: str | None
    since: str | None
    limit: int
    as_json: bool


def show(wanted: Wanted) -> None:
    """Print lines of the audit, newest first: a table, or JSON."""
    if wanted.action is not None and wanted.action not in set(Action):
        raise click.BadParameter(f"one of {', '.join(Action)}", param_hint="--action")
    try:
        since = None if wanted.since is None else parse_span(wanted.since, field="since").start
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since") from error
    asked = AuditFilter(wanted.who, wanted.action, wanted.base, wanted.object_id, since)
    lines = with_database(lambda database: audit.find(database, asked, limit=wanted.limit))
    if wanted.as_json:
        for line in lines:
            click.echo(json.dumps(asdict(line) | {"at": line.at.isoformat()}, ensure_ascii=False))
        return
    table = Table("when", "who", "what", "base", "object", "more")
    for line in lines:
        table.add_row(*_cells(line))
    table_console().print(table)


def prune(days: int) -> None:
    """Delete old lines."""
    count = with_database(lambda database: audit.prune(database, days=days, who=audit.LOCAL))
    click.echo(f"{count} lines older than {days} days are deleted; the audit says so.")


def _cells(line: AuditRecord) -> tuple[str, ...]:
    more = ", ".join(f"{name} {value}" for name, value in line.detail.items())
    shown = (line.who, line.action, line.base or "", line.object_id or "", more)
    return line.at.astimezone().strftime("%Y-%m-%d %H:%M:%S"), *(cell.replace("[", "\\[") for cell in shown)
