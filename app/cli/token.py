"""turnstream token create, list, revoke: who may use a server that runs with AUTH=token. Works on its database."""

from dataclasses import dataclass
from datetime import datetime

import click
from rich.table import Table

from app.auth.gate import REMEMBERED_S
from app.auth.principal import Scope
from app.auth.secret import digest, fresh
from app.cli.report import table_console, with_database
from app.errors import StartError
from app.store import bases, tokens
from app.store.engine import Database
from app.store.ids import new_id
from app.store.tokens import NewToken, TokenRecord

NAME_MAX_CHARS = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token to make. `owner` None: its name is the owner; no `bases`: every base; `days` None: it doesn't expire."""

    name: str
    scope: str
    bases: tuple[str, ...]
    owner: str | None
    days: int | None


def create(wanted: Wanted) -> None:
    """Make a token and show it, this once."""
    name, owner = _named("--name", wanted.name), _named("--owner", wanted.owner or wanted.name)
    secret = fresh("ts")

    async def make(database: Database) -> None:
        ids = [await _base_id(database, base) for base in dict.fromkeys(wanted.bases)]
        new = NewToken(
            new_id(),
            name,
            owner,
            Scope.of(wanted.scope).word,
            digest(secret),
            tuple(ids) if wanted.bases else None,
            wanted.days,
        )
        if not await tokens.add(database, new):
            raise StartError(f"there is a token named {name!r} already; revoke it, or choose another name")

    with_database(make)
    click.echo(secret)
    click.echo(f"The token {name!r}, shown this once; only a hash of it is kept.", err=True)


def list_all() -> None:
    """Show every token; never a secret."""
    found = with_database(tokens.list_all)
    table = Table("name", "owner", "scope", "bases", "created", "last used", "state")
    for token in found:
        limits = "all" if token.bases is None else ", ".join(token.bases) or "none is left"
        dates = (_shown(token.created_at), _shown(token.last_used_at) if token.last_used_at else "never")
        table.add_row(token.name, token.owner, token.scope, limits, *dates, _state(token))
    table_console().print(table)


def revoke(named: str) -> None:
    """End a token by its name or id."""

    async def end(database: Database) -> str:
        name = await tokens.revoke(database, named)
        if name is None:
            raise StartError(f"there is no token named {named!r} that isn't revoked")
        return name

    name = with_database(end)
    click.echo(f"The token {name!r} is revoked; a server that runs refuses it within {REMEMBERED_S:g} seconds.")


async def _base_id(database: Database, name: str) -> str:
    found = await bases.find_id(database, name)
    if found is None:
        raise StartError(f"there is no base named {name!r}")
    return found


def _named(option: str, value: str) -> str:
    if not value.strip() or len(value) > NAME_MAX_CHARS or not value.isprintable():
        raise click.BadParameter(f"1 to {NAME_MAX_CHARS} printable characters, not only blanks", param_hint=option)
    return value.strip()


def _shown(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _state(token: TokenRecord) -> str:
    if token.revoked_at is not None:
        return f"revoked {_shown(token.revoked_at)}"
    if token.expires_at is None:
        return "counts"
    over = token.expires_at <= datetime.now(token.expires_at.tzinfo)
    return f"{'expired' if over else 'until'} {_shown(token.expires_at)}"
