"""Background jobs: procrastinate's tables in a schema of their own, and what became of each chunk's extraction.

The library's own schema file is applied, in one transaction with the rest. The schema's comment says which of the
library's migration files it contains; a version of the library with newer ones needs a revision of ours that applies
what comes after the comment (tests/store/test_jobs.py tells).
"""

from typing import Any, cast

import sqlalchemy as sa
from alembic import context, op
from procrastinate.schema import SchemaManager
from sqlalchemy import AdaptedConnection
from sqlalchemy.dialects.postgresql import UUID

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CONTAINS = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The newest of the library's migration files that its schema of version 3.10 contains."""


def upgrade() -> None:
    """The schema `procrastinate`, and an empty table."""
    op.execute("CREATE SCHEMA procrastinate")
    op.execute("SET LOCAL search_path TO procrastinate")
    _run_script(SchemaManager.get_schema())
    op.execute("SET LOCAL search_path TO DEFAULT")
    op.execute(f"COMMENT ON SCHEMA procrastinate IS '{CONTAINS}'")
    op.create_table(
        "extractions",
        sa.Column("chunk_id", UUID(as_uuid=False), nullable=False),
        sa.Column("base_id", UUID(as_uuid=False), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("proposed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("dropped", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("chunk_id", name="pk_extractions"),
        sa.ForeignKeyConstraint(["chunk_id"], ["chunks.id"], name="fk_extractions_chunk_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["base_id"], ["bases.id"], name="fk_extractions_base_id", ondelete="CASCADE"),
    )
    op.create_index("ix_extractions_base_id", "extractions", ["base_id"])


def downgrade() -> None:
    """Drop them, and the jobs that wait."""
    op.drop_table("extractions")
    op.execute("DROP SCHEMA procrastinate CASCADE")


def _run_script(statements: str) -> None:
    """Several statements at once, which a prepared statement can't be: asyncpg's simple protocol takes them."""
    if context.is_offline_mode():
        op.execute(sa.text(statements.replace(":", "\\:")))
        return
    adapted = cast("AdaptedConnection", op.get_bind().connection.dbapi_connection)

    async def run(driver: Any) -> None:
        await driver.execute(statements)

    adapted.run_async(run)
