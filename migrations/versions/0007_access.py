"""Who may: tokens and the bases that they are limited to, members of bases, the page's sessions.

A turn keeps whether its asker may write, so that it has the same tools after a take-over. Turns from before this
revision were asked by somebody who may.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Four tables and a column."""
    op.create_table(
        "tokens",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("every_base", sa.Boolean(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("secret_hash", name="uq_tokens_secret_hash"),
    )
    op.create_index("uq_tokens_name", "tokens", ["name"], unique=True, postgresql_where=sa.text("revoked_at IS NULL"))
    op.create_table(
        "token_bases",
        sa.Column("token_id", UUID(as_uuid=False), nullable=False),
        sa.Column("base_id", UUID(as_uuid=False), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_token_bases_token_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["base_id"], ["bases.id"], name="fk_token_bases_base_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_id", "base_id", name="pk_token_bases"),
    )
    op.create_table(
        "members",
        sa.Column("base_id", UUID(as_uuid=False), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["base_id"], ["bases.id"], name="fk_members_base_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("base_id", "owner", name="pk_members"),
    )
    op.create_index("ix_members_owner", "members", ["owner"])
    op.create_table(
        "sessions",
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("token_id", UUID(as_uuid=False)),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_sessions_token_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("secret_hash", name="pk_sessions"),
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.add_column("turns", sa.Column("may_write", sa.Boolean(), server_default=sa.text("true"), nullable=False))


def downgrade() -> None:
    """Nobody is known any more."""
    op.drop_column("turns", "may_write")
    op.drop_table("sessions")
    op.drop_table("members")
    op.drop_table("token_bases")
    op.drop_table("tokens")
