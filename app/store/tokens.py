"""Bearer tokens: made, looked up by the hash of their secret, listed, revoked; when they were last used.

A token is limited to bases by their ids: a base that is renamed stays among them, one that is deleted leaves nothing.
Clocks are Postgres', so that replicas' clocks don't matter. What a token allows: app/auth.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.exc import IntegrityError

from app.store import audit
from app.store.audit import Action, Line
from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to store. `bases` are ids, None for every base; `days` is how long it lasts, None for good."""

    id: str
    name: str
    owner: str
    scope: str
    secret_hash: bytes
    bases: tuple[str, ...] | None
    days: int | None


@dataclass(frozen=True, slots=True)
class LiveToken:
    """A token that counts now. `bases` are ids, None for every base; `left_s` is how long it still lasts."""

    id: str
    name: str
    owner: str
    scope: str
    bases: tuple[str, ...] | None
    left_s: float | None


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is listed; `bases` are names, None for every base. The last use is known to the minute."""

    id: str
    name: str
    owner: str
    scope: str
    bases: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


_ADD = text("""
WITH t AS (
    INSERT INTO tokens (id, name, owner, scope, every_base, secret_hash, expires_at)
    VALUES (CAST(:id AS uuid), :name, :owner, :scope, :every_base, :secret_hash,
            now() + make_interval(days => CAST(:days AS int)))
    RETURNING id
)
INSERT INTO token_bases (token_id, base_id)
SELECT t.id, b.id FROM t, unnest(CAST(:bases AS uuid[])) AS b(id)
""")

_LIVE = "t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())"

_COLUMNS = """
t.id, t.name, t.owner, t.scope, t.every_base,
ARRAY(SELECT b.base_id FROM token_bases b WHERE b.token_id = t.id) AS bases,
CAST(extract(epoch FROM t.expires_at - now()) AS float) AS left_s
"""

_BY_HASH = text(f"SELECT {_COLUMNS} FROM tokens t WHERE t.secret_hash = :secret_hash AND {_LIVE}")  # noqa: S608

_BY_ID = text(f"SELECT {_COLUMNS} FROM tokens t WHERE t.id = CAST(:id AS uuid) AND {_LIVE}")  # noqa: S608

_LIST = text("""
SELECT t.id, t.name, t.owner, t.scope, t.every_base, t.created_at, t.expires_at, t.last_used_at, t.revoked_at,
       ARRAY(SELECT b.name FROM token_bases tb JOIN bases b ON b.id = tb.base_id
             WHERE tb.token_id = t.id ORDER BY b.name) AS bases
FROM tokens t ORDER BY t.created_at, t.id
""")

_REVOKE = text("""
UPDATE tokens SET revoked_at = now()
WHERE revoked_at IS NULL AND (name = :named OR CAST(id AS text) = :named) RETURNING id, name
""")

_USED = text("UPDATE tokens SET last_used_at = now() WHERE id = ANY(CAST(:ids AS uuid[]))")


async def add(database: Database, new: NewToken, *, by: str = audit.LOCAL) -> bool:
    """Store a token with its bases, together. False where a live token has the name."""
    parameters: dict[str, object] = {
        "id": new.id,
        "name": new.name,
        "owner": new.owner,
        "scope": new.scope,
        "every_base": new.bases is None,
        "secret_hash": new.secret_hash,
        "bases": list(new.bases or ()),
        "days": new.days,
    }
    try:
        async with database.begin() as connection:
            await connection.execute(_ADD, parameters)
            told = {"name": new.name, "owner": new.owner, "scope": new.scope, "bases": parameters["bases"]}
            await audit.write(connection, [Line(by, Action.TOKEN_CREATED, object_id=new.id, detail=told)])
    except IntegrityError as error:
        if "uq_tokens_name" in str(error.orig):
            return False
        raise
    return True


async def by_hash(database: Database, secret_hash: bytes) -> LiveToken | None:
    """The token of this secret; None where there is none, or it is revoked or expired."""
    async with database.single() as connection:
        return _live((await connection.execute(_BY_HASH, {"secret_hash": secret_hash})).one_or_none())


async def by_id(database: Database, token_id: str) -> LiveToken | None:
    """The token of this id, if it counts."""
    async with database.single() as connection:
        return _live((await connection.execute(_BY_ID, {"id": token_id})).one_or_none())


async def list_all(database: Database) -> list[TokenRecord]:
    """Every token, oldest first, revoked ones too."""
    async with database.single() as connection:
        rows: Sequence[Row[Any]] = (await connection.execute(_LIST)).all()
    return [
        TokenRecord(
            str(row.id),
            row.name,
            row.owner,
            row.scope,
            None if row.every_base else tuple(row.bases),
            row.created_at,
            row.expires_at,
            row.last_used_at,
            row.revoked_at,
        )
        for row in rows
    ]


async def revoke(database: Database, named: str, *, by: str = audit.LOCAL) -> str | None:
    """End a token by its name or its id; gives its name, None where no live token is meant."""
    async with database.begin() as connection:
        row = (await connection.execute(_REVOKE, {"named": named})).one_or_none()
        if row is None:
            return None
        line = Line(by, Action.TOKEN_REVOKED, object_id=str(row.id), detail={"name": row.name})
        await audit.write(connection, [line])
    return str(row.name)


async def used(database: Database, token_ids: Collection[str]) -> None:
    """Note that these tokens were used just now."""
    async with database.single() as connection:
        await connection.execute(_USED, {"ids": sorted(token_ids)})


def _live(row: Row[Any] | None) -> LiveToken | None:
    if row is None:
        return None
    bases = None if row.every_base else tuple(str(base) for base in row.bases)
    return LiveToken(str(row.id), row.name, row.owner, row.scope, bases, row.left_s)
