"""The knowledge graph: entities, facts on two clocks, and proposals that wait for a nod.

Needs pg_trgm, which 0001 made. Nothing in here needs a Postgres newer than 15.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Three empty tables."""
    _entities()
    _facts()
    _proposals()


def downgrade() -> None:
    """Drop them, and what was recorded in them."""
    for table in ("proposals", "facts", "entities"):
        op.drop_table(table)


def _id(name: str = "id") -> sa.Column[str]:
    return sa.Column(name, UUID(as_uuid=False), nullable=False)


def _word(name: str, default: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default=default, nullable=False)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False)


def _reference(column: str, table: str, target: str, ondelete: str = "CASCADE") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=f"fk_{table}_{column}", ondelete=ondelete)


def _entities() -> None:
    op.create_table(
        "entities",
        _id(),
        _id("base_id"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("aliases", JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("search_text", sa.Text(), nullable=False),
        _word("type", ""),
        _word("disambiguator", ""),
        sa.Column("merged_into", UUID(as_uuid=False)),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_entities"),
        _reference("base_id", "entities", "bases"),
        sa.UniqueConstraint(
            "base_id", "name_key", "type", "disambiguator", name="uq_entities_base_id_name_key_type_disambiguator"
        ),
    )
    op.create_index(
        "ix_entities_search_text",
        "entities",
        ["search_text"],
        postgresql_using="gin",
        postgresql_ops={"search_text": "gin_trgm_ops"},
    )


def _facts() -> None:
    op.create_table(
        "facts",
        _id(),
        _id("base_id"),
        _id("subject_id"),
        sa.Column("predicate", sa.Text(), nullable=False),
        sa.Column("object_id", UUID(as_uuid=False)),
        sa.Column("value", sa.Text()),
        sa.Column("valid_from", sa.Date()),
        _word("valid_from_precision", "unknown"),
        sa.Column("valid_to", sa.Date()),
        _word("valid_to_precision", "unknown"),
        _now("recorded_at"),
        sa.Column("superseded_at", sa.DateTime(timezone=True)),
        sa.Column("superseded_by", UUID(as_uuid=False)),
        _word("status", "asserted"),
        sa.Column("confidence", sa.Float(), server_default="1", nullable=False),
        sa.Column("chunk_id", UUID(as_uuid=False)),
        _word("quote", ""),
        _word("origin", "import"),
        sa.Column("fact_key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_facts"),
        _reference("base_id", "facts", "bases"),
        _reference("subject_id", "facts", "entities"),
        _reference("object_id", "facts", "entities"),
        _reference("chunk_id", "facts", "chunks", ondelete="SET NULL"),
        sa.CheckConstraint("(object_id IS NULL) <> (value IS NULL)", name=op.f("ck_facts_one_object")),
    )
    live = sa.text("superseded_at IS NULL")
    op.create_index("uq_facts_live_fact_key", "facts", ["base_id", "fact_key"], unique=True, postgresql_where=live)
    op.create_index("ix_facts_subject_id", "facts", ["subject_id"])
    for column in ("object_id", "chunk_id"):
        there = sa.text(f"{column} IS NOT NULL")
        op.create_index(f"ix_facts_{column}", "facts", [column], postgresql_where=there)
    op.create_index("ix_facts_base_id_recorded_at", "facts", ["base_id", "recorded_at"])
    op.create_index(
        "ix_facts_base_id_superseded_at",
        "facts",
        ["base_id", "superseded_at"],
        postgresql_where=sa.text("superseded_at IS NOT NULL"),
    )


def _proposals() -> None:
    op.create_table(
        "proposals",
        _id(),
        _id("base_id"),
        sa.Column("fact", JSONB(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("chunk_id", UUID(as_uuid=False)),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("proposed_by", sa.Text(), nullable=False),
        sa.Column("turn_id", UUID(as_uuid=False)),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        _word("status", "pending"),
        sa.Column("decided_by", sa.Text()),
        sa.Column("decided_at", sa.DateTime(timezone=True)),
        sa.Column("fact_id", UUID(as_uuid=False)),
        _now("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_proposals"),
        _reference("base_id", "proposals", "bases"),
        _reference("chunk_id", "proposals", "chunks", ondelete="SET NULL"),
        sa.UniqueConstraint("base_id", "idempotency_key", name="uq_proposals_base_id_idempotency_key"),
    )
    op.create_index("ix_proposals_base_id_status", "proposals", ["base_id", "status", "created_at"])
