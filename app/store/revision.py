"""The schema's revision as the pool sees it, for a server that looks at its own database."""

from sqlalchemy import text

from app.store.engine import Database

_REVISION = text("SELECT version_num FROM alembic_version")


async def revision(database: Database) -> str | None:
    """The revision that the database is at, None where no migration has run. Raises StoreUnavailable."""
    async with database.read() as connection:
        return (await connection.execute(_REVISION)).scalar_one_or_none()
