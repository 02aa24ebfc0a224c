"""Bases: made, listed, renamed and deleted. `default` always exists: its migration makes it."""

import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, text
from sqlalchemy.exc import IntegrityError

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


async def create(database: Database, name: str, *, description: str = "") -> BaseRecord | None:
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


async def change(database: Database, name: str, *, new_name: str | None = None, description: str | None = None) -> bool:
    """Renames or describes a base; what is None stays. False where the new name is taken."""
    try:
        async with database.begin() as connection:
            await connection.execute(
                text(
                    "UPDATE bases SET name = coalesce(:new_name, name),"
                    " description = coalesce(:description, description) WHERE name = :name"
                ),
                {"name": name, "new_name": new_name, "description": description},
            )
    except IntegrityError:
        return False
    return True


async def delete(database: Database, name: str) -> bool:
    """Deletes a base with all that is in it. False where there is none of that name."""
    async with database.begin() as connection:
        deleted = await connection.execute(text("DELETE FROM bases WHERE name = :name"), {"name": name})
    return deleted.rowcount > 0


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
