"""Runs of the harness with the turns they saw, and an index for the verdicts on answers over time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two tables, one index."""
    op.create_table(
        "harness_runs",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("script", sa.Text(), nullable=False),
        sa.Column("plan", JSONB(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_harness_runs"),
    )
    op.create_index("ix_harness_runs_created_at", "harness_runs", ["created_at"])
    op.create_table(
        "harness_turns",
        sa.Column("run_id", UUID(as_uuid=False), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("record", JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["harness_runs.id"], name="fk_harness_turns_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "model", "prompt", "repeat", "conversation", "turn", name="pk_harness_turns"),
    )
    op.create_index(
        "ix_messages_answered_at", "messages", ["created_at"], postgresql_where=sa.text("role = 'assistant'")
    )


def downgrade() -> None:
    """As before it."""
    op.drop_index("ix_messages_answered_at", "messages")
    op.drop_table("harness_turns")
    op.drop_table("harness_runs")
