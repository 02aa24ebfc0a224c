"""The page's logins: what the secret in a cookie stands for, until it expires, is ended, or its token is revoked."""

from dataclasses import dataclass

from sqlalchemy import text

from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A login that counts now. `token_id` is the token it was made with, None where it was an issuer's."""

    token_id: str | None
    owner: str
    scope: str
    left_s: float


_ADD = text("""
WITH over AS (DELETE FROM sessions WHERE expires_at < now())
INSERT INTO sessions (secret_hash, token_id, owner, scope, expires_at)
VALUES (:secret_hash, CAST(:token_id AS uuid), :owner, :scope, now() + make_interval(secs => :lasts_s))
""")

_GET = text("""
SELECT token_id, owner, scope, CAST(extract(epoch FROM expires_at - now()) AS float) AS left_s
FROM sessions WHERE secret_hash = :secret_hash AND expires_at > now()
""")

_END = text("DELETE FROM sessions WHERE secret_hash = :secret_hash")


async def add(database: Database, secret_hash: bytes, session: SessionRecord) -> None:
    """Keep a login for the `left_s` seconds of the record; those that are over are forgotten."""
    parameters = {
        "secret_hash": secret_hash,
        "token_id": session.token_id,
        "owner": session.owner,
        "scope": session.scope,
        "lasts_s": session.left_s,
    }
    async with database.single() as connection:
        await connection.execute(_ADD, parameters)


async def get(database: Database, secret_hash: bytes) -> SessionRecord | None:
    """The login of this secret, if it counts."""
    async with database.single() as connection:
        row = (await connection.execute(_GET, {"secret_hash": secret_hash})).one_or_none()
    if row is None:
        return None
    return SessionRecord(None if row.token_id is None else str(row.token_id), row.owner, row.scope, row.left_s)


async def end(database: Database, secret_hash: bytes) -> None:
    """Forget a login."""
    async with database.single() as connection:
        await connection.execute(_END, {"secret_hash": secret_hash})
