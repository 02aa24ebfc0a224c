"""Bases with their documents and chunks; conversations with their messages and turns.

Nothing in here needs a Postgres newer than 15.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR, UUID

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

EMPTY_LIST = sa.text("'[]'")


def upgrade() -> None:
    """The extension, every table, and the base `default`, which always exists (DESIGN section 4)."""
    op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    _knowledge()
    _conversations()
    _turns()
    op.execute("INSERT INTO bases (id, name) VALUES (gen_random_uuid(), 'default')")


def downgrade() -> None:
    """Drop every table. The extension stays: it may have been there before us."""
    for table in ("turns", "messages", "conversations", "chunks", "document_parts", "documents", "bases"):
        op.drop_table(table)


def _id() -> sa.Column[str]:
    return sa.Column("id", UUID(as_uuid=False), nullable=False)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False)


def _reference(column: str, table: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE")


def _knowledge() -> None:
    op.create_table(
        "bases",
        _id(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_bases"),
        sa.UniqueConstraint("name", name="uq_bases_name"),
    )
    op.create_table(
        "documents",
        _id(),
        sa.Column("base_id", UUID(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), server_default="", nullable=False),
        sa.Column("encoding", sa.Text()),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("superseded_at", sa.DateTime(timezone=True)),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reading_until", sa.DateTime(timezone=True)),
        sa.Column("error_code", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("chunk_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("content", sa.Text()),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        _reference("base_id", "documents", "bases"),
        sa.UniqueConstraint("base_id", "content_hash", name="uq_documents_base_id_content_hash"),
    )
    op.create_index("ix_documents_base_id_name", "documents", ["base_id", "name"])
    op.create_index(
        "ix_documents_unread",
        "documents",
        ["created_at"],
        postgresql_where=sa.text("status IN ('pending', 'reading')"),
    )
    op.create_table(
        "document_parts",
        sa.Column("document_id", UUID(as_uuid=False), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("document_id", "n", name="pk_document_parts"),
        _reference("document_id", "document_parts", "documents"),
    )
    op.create_table(
        "chunks",
        _id(),
        sa.Column("document_id", UUID(as_uuid=False), nullable=False),
        sa.Column("base_id", UUID(as_uuid=False), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("heading_path", sa.Text(), server_default="", nullable=False),
        sa.Column("page", sa.Integer()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("tsv", TSVECTOR(), nullable=False),
        sa.Column("segmenter", sa.Integer(), nullable=False),
        sa.Column("live", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_chunks"),
        _reference("document_id", "chunks", "documents"),
        _reference("base_id", "chunks", "bases"),
        sa.UniqueConstraint("document_id", "position", name="uq_chunks_document_id_position"),
    )
    op.create_index(
        "ix_chunks_tsv",
        "chunks",
        ["tsv"],
        postgresql_using="gin",
        postgresql_where=sa.text("live"),
        postgresql_with={"gin_pending_list_limit": 1024},
    )
    op.create_index("ix_chunks_base_id", "chunks", ["base_id"])


def _conversations() -> None:
    op.create_table(
        "conversations",
        _id(),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("base_id", UUID(as_uuid=False), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        _now("created_at"),
        _now("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
        _reference("base_id", "conversations", "bases"),
    )
    op.create_index(
        "ix_conversations_owner_updated_at",
        "conversations",
        ["owner", sa.text("updated_at DESC"), sa.text("id DESC")],
    )
    op.create_table(
        "messages",
        _id(),
        sa.Column("conversation_id", UUID(as_uuid=False), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("steps", JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("sources", JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("resolved", JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("tool_exchange", JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("evidence", sa.Text()),
        sa.Column("cited", JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("stopped", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_message", sa.Text()),
        sa.Column("model", sa.Text()),
        sa.Column("usage", JSONB()),
        sa.Column("turn_id", UUID(as_uuid=False)),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        _reference("conversation_id", "messages", "conversations"),
        sa.UniqueConstraint("conversation_id", "position", name="uq_messages_conversation_id_position"),
    )


def _turns() -> None:
    op.create_table(
        "turns",
        _id(),
        sa.Column("conversation_id", UUID(as_uuid=False), nullable=False),
        sa.Column("question_id", UUID(as_uuid=False), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("request_id", UUID(as_uuid=False)),
        sa.Column("as_of", sa.Text()),
        sa.Column("status", sa.Text(), server_default="running", nullable=False),
        sa.Column("replica", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stop_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("checkpoint", JSONB()),
        sa.Column("error_code", sa.Text()),
        sa.Column("answer_id", UUID(as_uuid=False)),
        sa.Column("last_seq", sa.Integer()),
        _now("created_at"),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        _reference("conversation_id", "turns", "conversations"),
        _reference("question_id", "turns", "messages"),
    )
    op.create_index(
        "uq_turns_one_running",
        "turns",
        ["conversation_id"],
        unique=True,
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_index(
        "uq_turns_owner_request_id",
        "turns",
        ["owner", "request_id"],
        unique=True,
        postgresql_where=sa.text("request_id IS NOT NULL"),
    )
    op.create_index("ix_turns_lease_until", "turns", ["lease_until"], postgresql_where=sa.text("status = 'running'"))
