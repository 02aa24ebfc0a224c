"""How alembic runs here: on a connection that app/store/migrate.py made, or on its own for a developer.

Either way it is a connection that holds the migration lock. `alembic ... --sql` prints the statements.
"""

import os
import sys
from logging.config import fileConfig

from alembic import context
from sqlalchemy import Connection

from app.store.migrate import run_locked
from app.store.tables import metadata


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    context.configure(dialect_name="postgresql", target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
elif (given := context.config.attributes.get("connection")) is not None:
    run(given)
else:
    if "TURNSTREAM_DATABASE_URL" not in os.environ:
        sys.exit("set TURNSTREAM_DATABASE_URL to the database that alembic is to change")
    if context.config.config_file_name is not None:
        fileConfig(context.config.config_file_name)
    run_locked(os.environ["TURNSTREAM_DATABASE_URL"], run)
