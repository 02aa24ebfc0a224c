"""What is kept and what is gone: the audit, which only grows; and passages that take their copies with them.

A proposal that was read out of a passage goes with it, and a fact's quote too; the fact itself was nodded to and stays.
What earlier versions left of deleted passages can be told by its origin: extraction always had a passage. It is
removed here, and a way down can't bring it back.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table that refuses every change but a new row, two rules of deleting, and indexes that deleting needs."""
    _audit()
    _passages_take_copies_along()
    op.create_index("ix_turns_question_id", "turns", ["question_id"])
    op.create_index(
        "ix_messages_source_documents",
        "messages",
        [sa.text("jsonb_path_query_array(sources, '$[*].\"document_id\"')")],
        postgresql_using="gin",
        postgresql_where=sa.text("sources <> '[]'"),
    )


def downgrade() -> None:
    """As before it; what was audited is lost."""
    op.drop_index("ix_messages_source_documents", "messages")
    op.drop_index("ix_turns_question_id", "turns")
    op.execute("DROP TRIGGER quote_goes_with_its_passage ON facts")
    op.execute("DROP FUNCTION quote_goes_with_its_passage()")
    op.drop_index("ix_proposals_chunk_id", "proposals")
    _reference_of_proposals(ondelete="SET NULL")
    op.drop_table("audit")
    op.execute("DROP FUNCTION audit_only_grows()")


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("base_id", UUID(as_uuid=False)),
        sa.Column("base", sa.Text()),
        sa.Column("object", sa.Text()),
        sa.Column("detail", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_object", "audit", ["object"], postgresql_where=sa.text("object IS NOT NULL"))
    op.execute("""
        CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'the audit only grows: % is refused', TG_OP USING ERRCODE = 'insufficient_privilege';
        END $$
    """)
    op.execute("""
        CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
        FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows()
    """)
    # also for a session that says it is replication, which switches ordinary triggers off
    op.execute("ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_only_grows")


def _passages_take_copies_along() -> None:
    op.execute("DELETE FROM proposals WHERE origin = 'extraction' AND chunk_id IS NULL")
    op.execute("UPDATE facts SET quote = '' WHERE origin = 'extraction' AND chunk_id IS NULL AND quote <> ''")
    _reference_of_proposals(ondelete="CASCADE")
    op.create_index(
        "ix_proposals_chunk_id", "proposals", ["chunk_id"], postgresql_where=sa.text("chunk_id IS NOT NULL")
    )
    op.execute("""
        CREATE FUNCTION quote_goes_with_its_passage() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.quote := '';
            RETURN NEW;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER quote_goes_with_its_passage BEFORE UPDATE OF chunk_id ON facts
        FOR EACH ROW WHEN (OLD.chunk_id IS NOT NULL AND NEW.chunk_id IS NULL)
        EXECUTE FUNCTION quote_goes_with_its_passage()
    """)


def _reference_of_proposals(*, ondelete: str) -> None:
    op.drop_constraint("fk_proposals_chunk_id", "proposals", type_="foreignkey")
    op.create_foreign_key("fk_proposals_chunk_id", "proposals", "chunks", ["chunk_id"], ["id"], ondelete=ondelete)
