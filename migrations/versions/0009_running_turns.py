"""How many turns of one owner run, counted so that nobody else starts one meanwhile.

A function, since only a volatile one looks at the turns as they are after it has waited for its lock: a statement by
itself sees them as they were before it waited. Source: decision 0020.
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The lock is the transaction's: it is given back when the admitted turn can be seen, or never was."""
    op.execute("""
        CREATE FUNCTION count_running_turns(of_owner text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('running turns of ' || of_owner, 0));
            RETURN (SELECT count(*) FROM turns WHERE owner = of_owner AND status = 'running');
        END
        $$
    """)


def downgrade() -> None:
    """Nobody asks any more."""
    op.execute("DROP FUNCTION count_running_turns(text)")
