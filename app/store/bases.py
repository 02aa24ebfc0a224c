"""Bases: made, listed, renamed and deleted. `default` always exists: its migration makes it."""

import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, text
from sqlalchemy.exc import IntegrityError

from app.store import audit
from app.store.audit import Action, Line
from app.store.conversations import RECENT
from app.store.engine import Database
from app.store.ids import new_id

DEFAULT_BASE = "default"
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""What a base may be called; the name stands in addresses."""

_NAME = re.compile(NAME_PATTERN.replace("$", r"\Z"))


@dataclass(frozen=True, slots=True)
class BaseRecord:
    """A base; the counts are of current, ready documents and their chunks."""

    id: str
    name: str
    description: str
    created_at: datetime
    document_count: int
    chunk_count: int


def valid_name(name: str) -> bool:
    """Whether a base may have this name."""
    return _NAME.match(name) is not None


async def create(database: Database, name: str, *, description: str = "", by: str = audit.LOCAL) -> BaseRecord | None:
    """A new, empty base; None where the name is taken. The caller has checked the name."""
    async with database.begin() as connection:
        row = (
            await connection.execute(
                text(
                    "INSERT INTO bases (id, name, description) VALUES (CAST(:id AS uuid), :name, :description)"
                    " ON CONFLICT (name) DO NOTHING RETURNING id, name, description, created_at"
                ),
                {"id": new_id(), "name": name, "description": description},
            )
        ).one_or_none()
        if row is not None:
            await audit.write(connection, [Line(by, Action.BASE_CREATED, str(row.id))])
    return None if row is None else BaseRecord(str(row.id), row.name, row.description, row.created_at, 0, 0)


async def ensure_default(database: Database) -> BaseRecord:
    """The base `default`, made where it is missing."""
    await create(database, DEFAULT_BASE)
    found = await get(database, DEFAULT_BASE)
    if found is None:
        raise LookupError("the base `default` was deleted at the moment it was made")
    return found


async def list_all(database: Database) -> list[BaseRecord]:
    """Every base, by name."""
    async with database.read() as connection:
        rows = await connection.execute(text(f"{_SELECT} ORDER BY b.name"))
        return [_record(row) for row in rows]


async def get(database: Database, name: str) -> BaseRecord | None:
    """The base of this name, which may be any text."""
    row = await _one(database, f"{_SELECT} WHERE b.name = :name", name)
    return None if row is None else _record(row)


async def find_id(database: Database, name: str) -> str | None:
    """The id of the base of this name, without counting what is in it."""
    row = await _one(database, "SELECT id FROM bases WHERE name = :name", name)
    return None if row is None else str(row.id)


async def change(
    database: Database,
    name: str,
    *,
    new_name: str | None = None,
    description: str | None = None,
    by: str = audit.LOCAL,
) -> bool:
    """Renames or describes a base; what is None stays. False where the new name is taken."""
    try:
        async with database.begin() as connection:
            changed = await connection.execute(
                text(
                    "UPDATE bases SET name = coalesce(:new_name, name),"
                    " description = coalesce(:description, description) WHERE name = :name RETURNING id"
                ),
                {"name": name, "new_name": new_name, "description": description},
            )
            before: dict[str, object] = {"name": name} if new_name not in (None, name) else {}
            lines = [Line(by, Action.BASE_CHANGED, str(row.id), detail=before) for row in changed]
            await audit.write(connection, lines)
    except IntegrityError:
        return False
    return True


async def delete(database: Database, name: str, *, by: str = audit.LOCAL) -> tuple[str, ...] | None:
    """Deletes a base with all that is in it; the ids of its turns whose live log may still be kept.

    None where there is none of that name.
    """
    async with database.begin() as connection:
        row = (await connection.execute(_LOCK, {"name": name})).one_or_none()
        if row is None:
            return None
        await audit.write(connection, [Line(by, Action.BASE_DELETED, str(row.id))])
        recent = (await connection.execute(_RECENT_TURNS, {"id": row.id})).scalars()
        ids = tuple(str(turn_id) for turn_id in recent)
        await connection.execute(_DELETE, {"id": row.id})
    return ids


_LOCK = text("SELECT id FROM bases WHERE name = :name FOR UPDATE")

_RECENT_TURNS = text(f"""
SELECT t.id FROM turns t JOIN conversations c ON c.id = t.conversation_id
WHERE c.base_id = CAST(:id AS uuid) AND {RECENT}
""")  # noqa: S608 - only constants are put together

_DELETE = text("DELETE FROM bases WHERE id = CAST(:id AS uuid)")

_SELECT = """
SELECT b.id, b.name, b.description, b.created_at, d.documents, d.chunks
FROM bases b
CROSS JOIN LATERAL (
    SELECT count(*) AS documents, coalesce(sum(chunk_count), 0) AS chunks
    FROM documents WHERE base_id = b.id AND status = 'ready' AND superseded_at IS NULL
) d"""


async def _one(database: Database, statement: str, name: str) -> Row[tuple[object, ...]] | None:
    if not valid_name(name):
        return None
    async with database.read() as connection:
        return (await connection.execute(text(statement), {"name": name})).one_or_none()


def _record(row: Row[tuple[object, ...]]) -> BaseRecord:
    return BaseRecord(str(row.id), row.name, row.description, row.created_at, row.documents, row.chunks)
