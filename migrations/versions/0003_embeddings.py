"""Vectors of chunks, one per embedding model, as plain arrays.

Needs no pgvector: a server without it migrates too and searches by full text alone (decision 0011). The extension
and its indexes are made by app/store/embeddings.py once a model is configured.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two empty tables."""
    op.create_table(
        "embedding_models",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("ready_at", sa.DateTime(timezone=True)),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("worker", UUID(as_uuid=False)),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_embedding_models"),
        sa.UniqueConstraint("name", "dimensions", name="uq_embedding_models_name_dimensions"),
    )
    op.create_table(
        "embeddings",
        sa.Column("chunk_id", UUID(as_uuid=False), nullable=False),
        sa.Column("model_id", UUID(as_uuid=False), nullable=False),
        sa.Column("embedding", sa.ARRAY(sa.Float(24))),
        sa.PrimaryKeyConstraint("chunk_id", "model_id", name="pk_embeddings"),
        sa.ForeignKeyConstraint(["chunk_id"], ["chunks.id"], name="fk_embeddings_chunk_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["model_id"], ["embedding_models.id"], name="fk_embeddings_model_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_embeddings_model_id", "embeddings", ["model_id"])
    # the numbers of a vector don't compress: trying costs time with every row
    op.execute("ALTER TABLE embeddings ALTER COLUMN embedding SET STORAGE EXTERNAL")


def downgrade() -> None:
    """Drop them; the extension stays."""
    for table in ("embeddings", "embedding_models"):
        op.drop_table(table)
