"""The tables, as SQLAlchemy Core knows them; migrations/ makes them and a test holds the two equal.

Decides columns, constraints and indexes. Rows never leave the store: each aggregate's module gives frozen
records. Clocks: every timestamp is Postgres' `now()`, so that replicas' clocks don't matter.
"""

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Float,
    ForeignKey,
    Identity,
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
    Index(
        "ix_chunks_tsv",
        "tsv",
        postgresql_using="gin",
        postgresql_where=text("live"),
        # a longer list of unsorted entries (kB) makes the planner prefer to read every chunk: decision 0004
        postgresql_with={"gin_pending_list_limit": 1024},
    ),
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
    Column("replica", Text),  # the process that runs it; NULL: its process gave it up, whoever can takes it
    Column("lease_until", DateTime(timezone=True), nullable=False),
    Column("stop_requested", Boolean, nullable=False, server_default=text("false")),
    Column("checkpoint", JSONB),  # what a next owner goes on from: app/turn/checkpoint.py
    Column("error_code", Text),
    Column("answer_id", UUID(as_uuid=False)),
    Column("last_seq", Integer),  # the last seq written down; of a turn that is over, its terminal frame's
    _created(),
    Column("finished_at", DateTime(timezone=True)),
    Column("attempt", Integer, nullable=False, server_default=text("0")),  # which owner in line; fences earlier ones
    Column("deaths", Integer, nullable=False, server_default=text("0")),  # how many owners died with it
    Column("may_write", Boolean, nullable=False, server_default=text("true")),  # whether its asker may write there
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
    Index("ix_turns_conversation_id_created_at", "conversation_id", "created_at"),
    Index("ix_turns_question_id", "question_id"),  # deleting a message looks for its turn
)

turn_pieces = Table(
    "turn_pieces",  # the text that a running turn has written down: each second what is new
    metadata,
    Column("turn_id", UUID(as_uuid=False), ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),  # which owner wrote it; each begins with the first character
    Column("at", Integer, primary_key=True),  # how many characters come before it
    Column("content", Text, nullable=False),
)

entities = Table(
    "entities",
    metadata,
    _id(),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column(
        "name_key", Text, nullable=False
    ),  # the name folded (NFKC, lower case, single spaces): what identity compares
    Column("aliases", JSONB, nullable=False, server_default=text("'[]'")),  # other names, as written
    Column("search_text", Text, nullable=False),  # name and aliases folded, one a line: what pg_trgm and LIKE look at
    Column("type", Text, nullable=False, server_default=""),
    Column("disambiguator", Text, nullable=False, server_default=""),  # tells namesakes apart: "OpenAI (the nonprofit)"
    Column("merged_into", UUID(as_uuid=False)),  # the entity that took its names and facts; null while it is its own
    _created(),
    UniqueConstraint("base_id", "name_key", "type", "disambiguator"),
    Index(
        "ix_entities_search_text",
        "search_text",
        postgresql_using="gin",
        postgresql_ops={"search_text": "gin_trgm_ops"},
    ),
)

# Two clocks. Valid time: when it was true in the world, as precisely as is known; an unknown date is not an open one.
# Record time: when the base came to believe the row, and when it stopped. Rows are closed, never changed or deleted.
facts = Table(
    "facts",
    metadata,
    _id(),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("subject_id", UUID(as_uuid=False), ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
    Column("predicate", Text, nullable=False),  # lower case words: "member of board of", "founded"
    Column("object_id", UUID(as_uuid=False), ForeignKey("entities.id", ondelete="CASCADE")),  # exactly one of the two
    Column("value", Text),
    Column("valid_from", Date),  # the first day of its year, month or day; null when unknown
    Column("valid_from_precision", Text, nullable=False, server_default="unknown"),  # year | month | day | unknown
    Column("valid_to", Date),  # the last day of its year, month or day; null when unknown or open
    Column("valid_to_precision", Text, nullable=False, server_default="unknown"),  # year | month | day | unknown | open
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("superseded_at", DateTime(timezone=True)),  # null while the base believes it
    Column("superseded_by", UUID(as_uuid=False)),  # the row that took its place, after a correction or a merge
    Column("status", Text, nullable=False, server_default="asserted"),  # asserted | corrected | rejected | merged
    Column("confidence", Float, nullable=False, server_default="1"),  # 0 to 1
    Column("chunk_id", UUID(as_uuid=False), ForeignKey("chunks.id", ondelete="SET NULL")),  # the evidence
    Column(
        "quote", Text, nullable=False, server_default=""
    ),  # the sentence of the chunk that says so; a trigger empties it when the chunk goes
    Column("origin", Text, nullable=False, server_default="import"),  # import | api | extraction | remember
    Column("fact_key", Text, nullable=False),  # hash of what it says: importing it again changes nothing
    CheckConstraint("(object_id IS NULL) <> (value IS NULL)", name="one_object"),
    Index("uq_facts_live_fact_key", "base_id", "fact_key", unique=True, postgresql_where=text("superseded_at IS NULL")),
    Index("ix_facts_subject_id", "subject_id"),
    Index("ix_facts_object_id", "object_id", postgresql_where=text("object_id IS NOT NULL")),
    Index("ix_facts_base_id_recorded_at", "base_id", "recorded_at"),
    Index(
        "ix_facts_base_id_superseded_at", "base_id", "superseded_at", postgresql_where=text("superseded_at IS NOT NULL")
    ),
    Index("ix_facts_chunk_id", "chunk_id", postgresql_where=text("chunk_id IS NOT NULL")),
)

# What `remember` and extraction propose; a person nods or refuses, through the API or the page.
proposals = Table(
    "proposals",
    metadata,
    _id(),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("fact", JSONB, nullable=False),  # a row as `facts import` takes it
    Column("sentence", Text, nullable=False),  # what the fact was read from
    Column("chunk_id", UUID(as_uuid=False), ForeignKey("chunks.id", ondelete="CASCADE")),  # the passage it stands in
    Column("origin", Text, nullable=False),  # remember | extraction
    Column("proposed_by", Text, nullable=False),
    Column("turn_id", UUID(as_uuid=False)),
    Column("idempotency_key", Text, nullable=False),  # the same proposal of the same turn or chunk is made once
    Column("status", Text, nullable=False, server_default="pending"),  # pending | accepted | refused
    Column("decided_by", Text),
    Column("decided_at", DateTime(timezone=True)),
    Column("fact_id", UUID(as_uuid=False)),  # the fact that a nod made
    _created(),
    UniqueConstraint("base_id", "idempotency_key"),
    Index("ix_proposals_base_id_status", "base_id", "status", "created_at"),
    Index("ix_proposals_chunk_id", "chunk_id", postgresql_where=text("chunk_id IS NOT NULL")),
)

# What became of each chunk that a model was asked to read facts from; the jobs themselves are procrastinate's, in a
# schema of their own (decision 0012).
extractions = Table(
    "extractions",
    metadata,
    Column("chunk_id", UUID(as_uuid=False), ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), nullable=False),
    Column("model", Text, nullable=False),
    Column("proposed", Integer, nullable=False, server_default="0"),  # facts that wait for a nod, or had one already
    Column("dropped", Integer, nullable=False, server_default="0"),  # rows that were no facts, or not in the passage
    Column("error_code", Text),  # why it was given up; null when the chunk was read
    Column("error", Text),  # the same, for a person
    _created(),
    Index("ix_extractions_base_id", "base_id"),
)

# Models that chunks were embedded with. The vectors are plain arrays, so that the schema needs no pgvector; casts and
# indexes that do are made when a model is configured (app/store/embeddings.py, decision 0011).
embedding_models = Table(
    "embedding_models",
    metadata,
    _id(),
    Column("name", Text, nullable=False),  # as the endpoint knows it
    Column("dimensions", Integer, nullable=False),
    Column("ready_at", DateTime(timezone=True)),  # when every chunk had its vector first: search may use it from then
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=func.now()),  # last configured somewhere
    Column("worker", UUID(as_uuid=False)),  # who fills it, until lease_until
    Column("lease_until", DateTime(timezone=True)),
    _created(),
    UniqueConstraint("name", "dimensions"),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("chunk_id", UUID(as_uuid=False), ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True),
    Column("model_id", UUID(as_uuid=False), ForeignKey("embedding_models.id", ondelete="CASCADE"), primary_key=True),
    Column("embedding", ARRAY(REAL)),  # null where the model refused the text
    Index("ix_embeddings_model_id", "model_id"),
)


# Runs of the harness: what each was to do, and what was seen of each turn. A turn's record is the harness's own JSON.
harness_runs = Table(
    "harness_runs",
    metadata,
    _id(),
    Column("script", Text, nullable=False),  # the script's name
    Column("plan", JSONB, nullable=False),  # script and base with their hashes, arms, repeats
    Column("finished_at", DateTime(timezone=True)),  # null while it runs, and after it was interrupted
    _created(),
    Index("ix_harness_runs_created_at", "created_at"),
)

harness_turns = Table(
    "harness_turns",
    metadata,
    Column("run_id", UUID(as_uuid=False), ForeignKey("harness_runs.id", ondelete="CASCADE"), primary_key=True),
    Column("model", Text, primary_key=True),
    Column("prompt", Integer, primary_key=True),
    Column("repeat", Integer, primary_key=True),
    Column("conversation", Text, primary_key=True),  # its name in the script
    Column("turn", Integer, primary_key=True),  # from 1
    Column("record", JSONB, nullable=False),
    _created(),
)

# Verdicts over time are counted over a base's answers of a stretch of time.
Index("ix_messages_answered_at", messages.c.created_at, postgresql_where=text("role = 'assistant'"))

# Which answers hold excerpts of a document, for when it is deleted.
Index(
    "ix_messages_source_documents",
    func.jsonb_path_query_array(messages.c.sources, text("'$[*].\"document_id\"'")),
    postgresql_using="gin",
    postgresql_where=text("sources <> '[]'"),
)

# Bearer tokens (decision 0019). Only a hash of the secret is kept; a revoked token stays, for the record.
tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("name", Text, nullable=False),  # for people; free again once its token is revoked
    Column("owner", Text, nullable=False),  # whose the conversations are that it is used for
    Column("scope", Text, nullable=False),  # read | write | admin
    Column("every_base", Boolean, nullable=False),  # false: those of token_bases, also when none of them is left
    Column("secret_hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of the token as it is sent
    Column("expires_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),  # to the minute
    Column("revoked_at", DateTime(timezone=True)),
    _created(),
    Index("uq_tokens_name", "name", unique=True, postgresql_where=text("revoked_at IS NULL")),
)

token_bases = Table(
    "token_bases",
    metadata,
    Column("token_id", UUID(as_uuid=False), ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), primary_key=True),
)

# Who may see a base where people sign in with an OpenID issuer; "*" is everybody who signs in.
members = Table(
    "members",
    metadata,
    Column("base_id", UUID(as_uuid=False), ForeignKey("bases.id", ondelete="CASCADE"), primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("role", Text, nullable=False),  # read | write
    Column("added_by", Text, nullable=False),
    _created(),
    Index("ix_members_owner", "owner"),
)

# The page's logins: what its cookie stands for.
sessions = Table(
    "sessions",
    metadata,
    Column("secret_hash", LargeBinary, primary_key=True),  # SHA-256 of the cookie's value
    Column("token_id", UUID(as_uuid=False), ForeignKey("tokens.id", ondelete="CASCADE")),  # null: by an issuer's token
    Column("owner", Text, nullable=False),
    Column("scope", Text, nullable=False),  # read | write | admin
    Column("expires_at", DateTime(timezone=True), nullable=False),
    _created(),
    Index("ix_sessions_expires_at", "expires_at"),
)

# Who changed what (decision 0021). A trigger refuses UPDATE, DELETE and TRUNCATE; nothing here refers to another table,
# so that a line outlives what it tells of. Never any text of messages or documents.
audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("who", Text, nullable=False),  # an owner; local: at the server's machine; retention: the server itself
    Column("action", Text, nullable=False),  # app/store/audit.py: Action
    Column("base_id", UUID(as_uuid=False)),
    Column("base", Text),  # its name at the time
    Column("object", Text),  # the id of what was changed; of a member the owner
    Column("detail", JSONB, nullable=False, server_default=text("'{}'")),  # ids, roles and counts
    Index("ix_audit_at", "at"),
    Index("ix_audit_object", "object", postgresql_where=text("object IS NOT NULL")),
)
