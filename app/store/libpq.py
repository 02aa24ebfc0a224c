"""A database's address in libpq's words: for psycopg, and for Postgres' own programs."""

from psycopg.pq import Conninfo
from sqlalchemy import URL, make_url


def parameters(url: str | URL) -> dict[str, str]:
    """The parameters that libpq needs, of any URL that `app.store.engine.async_url` takes, a unix socket's too.

    What libpq doesn't know (asyncpg's own options) is left out; asyncpg's `ssl` is libpq's `sslmode`.
    """
    parsed = make_url(url.replace("postgres://", "postgresql://", 1) if isinstance(url, str) else url)
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in parsed.query.items()}
    if "ssl" in query:
        query.setdefault("sslmode", query["ssl"])
    parts: dict[str, str | int | None] = {
        "host": parsed.host,
        "port": parsed.port,
        "user": parsed.username,
        "password": parsed.password,
        "dbname": parsed.database,
        **{name: value for name, value in query.items() if name in known},
    }
    return {name: str(value) for name, value in parts.items() if value is not None}
