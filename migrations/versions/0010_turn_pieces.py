"""A running turn's text is written down piece by piece, each once, instead of all of it each second (decision 0023)."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Running turns keep their text, as one piece of their present owner."""
    op.create_table(
        "turn_pieces",
        sa.Column("turn_id", UUID(as_uuid=False), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("at", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_turn_pieces_turn_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", "attempt", "at", name="pk_turn_pieces"),
    )
    op.execute(
        "INSERT INTO turn_pieces (turn_id, attempt, at, content)"
        " SELECT id, attempt, 0, draft FROM turns WHERE status = 'running' AND draft IS NOT NULL"
    )
    op.drop_column("turns", "draft")


def downgrade() -> None:
    """The pieces of the last owner that wrote any are put together again."""
    op.add_column("turns", sa.Column("draft", sa.Text()))
    op.execute(
        "UPDATE turns SET draft = (SELECT string_agg(content, '' ORDER BY at) FROM turn_pieces p"
        " WHERE p.turn_id = turns.id AND p.attempt = (SELECT max(attempt) FROM turn_pieces WHERE turn_id = turns.id))"
        " WHERE status = 'running'"
    )
    op.drop_table("turn_pieces")
