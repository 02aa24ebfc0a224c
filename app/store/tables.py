"""The tables, as SQLAlchemy Core knows them; migrations/ makes them and a test holds the two equal.

Decides columns, constraints and indexes. Rows never leave the store: each aggregate's module gives frozen
records. Clocks: every timestamp is Postgres' `now()`, so that replicas' clocks don't matter.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR, UUID

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id() -> Column[str]:
    return Column("id", UUID(as_uuid=False), primary_key=True)


def _created() -> Column[object]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now())


bases = Table(
    "bases",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("description", Text, nullable=False, server_default=""),
    _created(),
)

documents = Table(
    "documents",
    metadata,
    _id(),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),  # the file's name inside its base; a changed file is a new version of it
    Column("title", Text, nullable=False, server_default=""),
    Column("content_hash", Text, nullable=False),  # sha-256 of the bytes, hex
    Column("media_type", Text, nullable=False, server_default=""),
    Column("encoding", Text),  # what the bytes were decoded with, where they were text
    Column("size_bytes", BigInteger, nullable=False),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("superseded_at", DateTime(timezone=True)),  # set when a newer version of the same name is ready
    Column("status", Text, nullable=False, server_default="pending"),  # pending | reading | ready | failed
    Column("attempts", Integer, nullable=False, server_default="0"),  # readings begun; the current one's token
    Column("reading_until", DateTime(timezone=True)),  # the lease of who reads it; past it another may
    Column("error_code", Text),  # why it failed: a FailureReason
    Column("error", Text),  # the same, for a person
    Column("chunk_count", Integer, nullable=False, server_default="0"),
    Column("content", Text),  # the document as plain text, once it is ready
    _created(),
    UniqueConstraint("base_id", "content_hash"),  # one document per content and base, however many upload it at once
    Index("ix_documents_base_id_name", "base_id", "name"),
    Index("ix_documents_unread", "created_at", postgresql_where=text("status IN ('pending', 'reading')")),
)

document_parts = Table(
    "document_parts",
    metadata,
    Column("document_id", UUID(as_uuid=False), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),  # the file as it was uploaded, kept until it is read
)

chunks = Table(
    "chunks",
    metadata,
    _id(),
    Column("document_id", UUID(as_uuid=False), ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),  # 0-based within the document
    Column("heading_path", Text, nullable=False, server_default=""),  # "Part › Chapter › Section"
    Column("page", Integer),  # 1-based, where the format has pages
    Column("text", Text, nullable=False),
    Column("tsv", TSVECTOR, nullable=False),  # made by app/knowledge/segment.py, cast, never parsed by Postgres
    Column("segmenter", Integer, nullable=False),  # the version of the segmentation that made tsv
    Column("live", Boolean, nullable=False, server_default=text("true")),  # false once its document is superseded
    UniqueConstraint("document_id", "position"),
    Index("ix_chunks_tsv", "tsv", postgresql_using="gin", postgresql_where=text("live")),
    Index("ix_chunks_base_id", "base_id"),
)

conversations = Table(
    "conversations",
    metadata,
    _id(),
    Column("owner", Text, nullable=False),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("title", Text, nullable=False),
    _created(),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_conversations_owner_updated_at", "owner", text("updated_at DESC"), text("id DESC")),
)

messages = Table(
    "messages",
    metadata,
    _id(),
    Column("conversation_id", UUID(as_uuid=False), ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),  # order within the conversation; timestamps can tie (case D06)
    Column("role", Text, nullable=False),  # user | assistant
    Column("content", Text, nullable=False),
    Column("steps", JSONB, nullable=False, server_default=text("'[]'")),
    Column("sources", JSONB, nullable=False, server_default=text("'[]'")),
    Column("resolved", JSONB, nullable=False, server_default=text("'[]'")),
    Column("tool_exchange", JSONB, nullable=False, server_default=text("'[]'")),
    Column("evidence", Text),  # cited | uncited | skipped | none
    Column("cited", JSONB, nullable=False, server_default=text("'[]'")),
    Column("stopped", Boolean, nullable=False, server_default=text("false")),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("model", Text),
    Column("usage", JSONB),
    Column("turn_id", UUID(as_uuid=False)),
    _created(),
    UniqueConstraint("conversation_id", "position"),
)

turns = Table(
    "turns",
    metadata,
    _id(),
    Column("conversation_id", UUID(as_uuid=False), ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("question_id", UUID(as_uuid=False), ForeignKey("messages.id", ondelete="CASCADE"), nullable=False),
    Column("owner", Text, nullable=False),  # the principal who asked; request ids are theirs
    Column("request_id", UUID(as_uuid=False)),
    Column("as_of", Text),
    Column("status", Text, nullable=False, server_default="running"),  # running | done | stopped | failed
    Column("replica", Text, nullable=False),  # the process that runs it
    Column("lease_until", DateTime(timezone=True), nullable=False),
    Column("stop_requested", Boolean, nullable=False, server_default=text("false")),
    Column("checkpoint", JSONB),  # {content, steps, sources, resolved, tool_exchange} so far
    Column("error_code", Text),
    Column("answer_id", UUID(as_uuid=False)),
    Column("last_seq", Integer),  # the terminal frame's seq
    _created(),
    Column("finished_at", DateTime(timezone=True)),
    # at most one running turn per conversation, whichever process asks
    Index(
        "uq_turns_one_running",
        "conversation_id",
        unique=True,
        postgresql_where=text("status = 'running'"),
    ),
    # a repeated request_id attaches, never starts a second turn
    Index(
        "uq_turns_owner_request_id",
        "owner",
        "request_id",
        unique=True,
        postgresql_where=text("request_id IS NOT NULL"),
    ),
    Index("ix_turns_lease_until", "lease_until", postgresql_where=text("status = 'running'")),
)
