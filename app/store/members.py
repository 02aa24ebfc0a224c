"""Members of bases: who may see a base, and who may write there. Counted where people sign in with an OpenID issuer."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from app.store import audit
from app.store.audit import Action, Line
from app.store.engine import Database

EVERYBODY = "*"
"""The member that stands for everybody who signs in."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member of a base. `role` is read or write."""

    owner: str
    role: str
    added_by: str
    created_at: datetime


_OF_OWNER = text("SELECT base_id, role FROM members WHERE owner IN (:owner, :everybody)")

_LIST = text("""
SELECT owner, role, added_by, created_at FROM members WHERE base_id = CAST(:base_id AS uuid) ORDER BY created_at, owner
""")

_PUT = text("""
INSERT INTO members (base_id, owner, role, added_by) VALUES (CAST(:base_id AS uuid), :owner, :role, :added_by)
ON CONFLICT (base_id, owner) DO UPDATE SET role = excluded.role, added_by = excluded.added_by
RETURNING owner, role, added_by, created_at
""")

_REMOVE = text("DELETE FROM members WHERE base_id = CAST(:base_id AS uuid) AND owner = :owner")


async def of_owner(database: Database, owner: str) -> list[tuple[str, str]]:
    """The bases that this owner may see, by id, each with a role; a base may come twice, with the role of everybody."""
    async with database.single() as connection:
        rows = (await connection.execute(_OF_OWNER, {"owner": owner, "everybody": EVERYBODY})).all()
    return [(str(row.base_id), row.role) for row in rows]


async def list_all(database: Database, base_id: str) -> list[MemberRecord]:
    """A base's members, those first that were added first."""
    async with database.single() as connection:
        rows = (await connection.execute(_LIST, {"base_id": base_id})).all()
    return [MemberRecord(row.owner, row.role, row.added_by, row.created_at) for row in rows]


async def put(database: Database, base_id: str, owner: str, *, role: str, added_by: str) -> MemberRecord:
    """Make somebody a member, or give a member another role."""
    parameters = {"base_id": base_id, "owner": owner, "role": role, "added_by": added_by}
    line = Line(added_by, Action.MEMBER_SET, base_id, owner, {"role": role})
    async with database.begin() as connection:
        row = (await connection.execute(_PUT, parameters)).one()
        await audit.write(connection, [line])
    return MemberRecord(row.owner, row.role, row.added_by, row.created_at)


async def remove(database: Database, base_id: str, owner: str, *, by: str = audit.LOCAL) -> bool:
    """End a membership; False where there is none."""
    async with database.begin() as connection:
        if (await connection.execute(_REMOVE, {"base_id": base_id, "owner": owner})).rowcount != 1:
            return False
        await audit.write(connection, [Line(by, Action.MEMBER_REMOVED, base_id, owner)])
    return True
