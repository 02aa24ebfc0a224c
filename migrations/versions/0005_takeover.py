"""A turn's owner can change: who owns it, as which in line, and what the next one goes on from.

`replica` NULL means that its process gave it up. A running turn's text moves out of the checkpoint into a column of
its own, since it is written each second while the rest changes once a round.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Running turns keep their text."""
    op.alter_column("turns", "replica", nullable=True)
    op.add_column("turns", sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("turns", sa.Column("deaths", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("turns", sa.Column("draft", sa.Text()))
    op.execute(
        "UPDATE turns SET draft = checkpoint ->> 'content', checkpoint = checkpoint - 'content'"
        " WHERE checkpoint IS NOT NULL"
    )
    op.create_index("ix_turns_conversation_id_created_at", "turns", ["conversation_id", "created_at"])


def downgrade() -> None:
    """Text goes back into the checkpoint; turns that were given up belong to nobody that lives."""
    op.drop_index("ix_turns_conversation_id_created_at", table_name="turns")
    op.execute(
        "UPDATE turns SET checkpoint = coalesce(checkpoint, '{}') || jsonb_build_object('content', draft)"
        " WHERE draft IS NOT NULL"
    )
    op.execute("UPDATE turns SET replica = '' WHERE replica IS NULL")
    op.drop_column("turns", "draft")
    op.drop_column("turns", "deaths")
    op.drop_column("turns", "attempt")
    op.alter_column("turns", "replica", nullable=False)
