"""The beginning of a turn: its admission, with the question, in one statement.

Decides exclusion (the partial unique index), how many turns of an owner run at once, and that question and turn are
written together. While a turn runs, its row is app/store/leases.py's; its end is app/store/answers.py's. Source: DESIGN
sections 5 and 8, cases D06 and S09, decision 0020.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.exc import IntegrityError

from app.errors import AppError, RefusalCode, TurnErrorCode
from app.store.engine import Database
from app.store.ids import new_id
from app.store.threads import EarlierMessage

LEASE_S = 15
"""How long a running turn stays its process's own without a renewal."""
TURN_RETRY_S = 5
"""When to ask again while as many turns run as may: nobody knows when one ends."""


@dataclass(frozen=True, slots=True)
class NewTurn:
    """What admission needs. Exactly one of `base` (a new conversation) and `conversation_id` decides where.

    A new conversation begins with `earlier`, messages that were exchanged elsewhere.
    """

    turn_id: str
    question_id: str
    new_conversation_id: str
    owner: str
    replica: str
    question: str
    title: str
    conversation_id: str | None
    base: str | None
    as_of: str | None
    request_id: str | None
    earlier: tuple[EarlierMessage, ...] = ()
    readable: tuple[str, ...] | None = None
    """The ids of the bases that the asker may see; None for every base."""
    writable: tuple[str, ...] | None = None
    """The ids of those in which the turn's tools may write; None for every base."""
    most_running: int | None = None
    """How many turns of the owner may run at once, this one among them; None for any number."""


@dataclass(frozen=True, slots=True)
class AdmittedTurn:
    """A turn that runs: its row is in the database and nobody else can start one in its conversation."""

    turn_id: str
    conversation_id: str
    question_id: str
    base_id: str
    base: str
    owner: str
    title: str
    question: str
    as_of: str | None
    first: bool
    """Whether the conversation began with it, so that there is no history to read."""
    replica: str
    may_write: bool
    """Whether its asker may write in the base."""
    attempt: int = 0
    """Which owner in line this process is; with `replica` it fences out earlier ones."""


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """The turn that an earlier request with the same request_id started."""

    turn_id: str
    conversation_id: str
    question_id: str
    title: str


_SEEN = "(CAST(:readable AS uuid[]) IS NULL OR {base} = ANY(CAST(:readable AS uuid[])))"
_WRITES = "(CAST(:writable AS uuid[]) IS NULL OR c.base_id = ANY(CAST(:writable AS uuid[])))"

_TURN = f"""
    INSERT INTO turns (id, conversation_id, question_id, owner, request_id, as_of, replica, lease_until, may_write)
    SELECT CAST(:turn_id AS uuid), c.id, CAST(:question_id AS uuid), :owner, CAST(:request_id AS uuid), :as_of,
           :replica, now() + make_interval(secs => :lease_s), {_WRITES}
"""

# read before any row is locked: who waits for an owner's count holds nothing that another admission waits for
_ROOM = """
room AS MATERIALIZED (
    SELECT CAST(:most_running AS bigint) IS NULL OR count_running_turns(:owner) < CAST(:most_running AS bigint) AS left
)
"""

_FIRST = text(f"""
WITH {_ROOM}, c AS (
    INSERT INTO conversations (id, owner, base_id, title)
    SELECT CAST(:new_conversation_id AS uuid), :owner, b.id, :title FROM bases b, room
    WHERE room.left AND b.name = :base AND {_SEEN.format(base="b.id")}
    RETURNING id, base_id, title
), m AS (
    INSERT INTO messages (id, conversation_id, position, role, content, turn_id)
    SELECT CAST(:question_id AS uuid), c.id, 1, 'user', :question, CAST(:turn_id AS uuid) FROM c
    RETURNING id
), t AS (
    {_TURN} FROM c, m RETURNING id, may_write
)
SELECT room.left, c.id, c.base_id, c.title, CAST(NULL AS text) AS base_name, t.may_write
FROM room LEFT JOIN (c CROSS JOIN t) ON true
""")  # noqa: S608 - only constants of this module are put together

_BEGIN_WITH = text(f"""
WITH c AS (
    INSERT INTO conversations (id, owner, base_id, title)
    SELECT CAST(:new_conversation_id AS uuid), :owner, b.id, :title FROM bases b
    WHERE b.name = :base AND {_SEEN.format(base="b.id")}
    RETURNING id
)
INSERT INTO messages (id, conversation_id, position, role, content)
SELECT CAST(e.id AS uuid), c.id, e.position, e.role, e.content
FROM c, jsonb_to_recordset(CAST(:earlier AS jsonb)) AS e(id text, position integer, role text, content text)
RETURNING conversation_id
""")  # noqa: S608

_NEXT = text(f"""
WITH {_ROOM}, c AS (
    UPDATE conversations SET updated_at = now() FROM room
    WHERE room.left AND id = CAST(:conversation_id AS uuid) AND owner = :owner AND {_SEEN.format(base="base_id")}
      AND (CAST(:base AS text) IS NULL OR base_id = (SELECT id FROM bases WHERE name = CAST(:base AS text)))
    RETURNING id, base_id, title
), m AS (
    INSERT INTO messages (id, conversation_id, position, role, content, turn_id)
    SELECT CAST(:question_id AS uuid), c.id,
           coalesce((SELECT max(position) FROM messages WHERE conversation_id = c.id), 0) + 1,
           'user', :question, CAST(:turn_id AS uuid)
    FROM c
    RETURNING id
), t AS (
    {_TURN} FROM c, m RETURNING id, may_write
)
SELECT room.left, c.id, c.base_id, c.title, b.name AS base_name, t.may_write
FROM room LEFT JOIN (c JOIN bases b ON b.id = c.base_id CROSS JOIN t) ON true
""")  # noqa: S608

_BASE_OF = text(f"""
SELECT b.name FROM conversations c JOIN bases b ON b.id = c.base_id
WHERE c.id = CAST(:conversation_id AS uuid) AND c.owner = :owner AND {_SEEN.format(base="c.base_id")}
""")  # noqa: S608

_RETRIED = text(f"""
SELECT m.role, m.content,
       (SELECT count(*) FROM messages a
           WHERE a.conversation_id = m.conversation_id AND a.position > m.position) AS later,
       (SELECT count(*) FROM messages a WHERE a.conversation_id = m.conversation_id AND a.position > m.position
           AND a.role = 'assistant' AND a.error_code IS NOT NULL) AS failed
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = CAST(:question_id AS uuid) AND c.id = CAST(:conversation_id AS uuid) AND c.owner = :owner
  AND {_SEEN.format(base="c.base_id")}
""")  # noqa: S608

_RETRY = text(f"""
WITH {_ROOM}, c AS (
    UPDATE conversations SET updated_at = now() FROM room
    WHERE room.left AND id = CAST(:conversation_id AS uuid) AND owner = :owner
    RETURNING id, base_id, title
), t AS (
    {_TURN} FROM c RETURNING id, may_write
)
SELECT room.left, c.id, c.base_id, c.title, b.name AS base_name, t.may_write
FROM room LEFT JOIN (c JOIN bases b ON b.id = c.base_id CROSS JOIN t) ON true
""")  # noqa: S608

_KNOWN_REQUEST = text(f"""
SELECT t.id, t.conversation_id, t.question_id, c.title FROM turns t JOIN conversations c ON c.id = t.conversation_id
WHERE t.owner = :owner AND t.request_id = CAST(:request_id AS uuid) AND {_SEEN.format(base="c.base_id")}
""")  # noqa: S608


async def known_request(database: Database, new: NewTurn) -> KnownRequest | None:
    """The turn that this request id of this owner has already started, if they may still see its base."""
    async with database.single() as connection:
        row = (await connection.execute(_KNOWN_REQUEST, _parameters(new))).one_or_none()
    return KnownRequest(str(row.id), str(row.conversation_id), str(row.question_id), row.title) if row else None


async def admit(database: Database, new: NewTurn) -> AdmittedTurn | KnownRequest:
    """Store the question and start its turn, or give the turn that this request id has already started.

    Raises:
        AppError: answer_running while another turn of the conversation runs; too_many_turns while as many of the
            owner's run as may; not_found for an unknown base or somebody else's conversation; invalid where the
            conversation belongs to another base.
    """
    parameters = _parameters(new)
    try:
        if new.earlier and new.conversation_id is None:
            return await _admit_after(database, new, parameters)
        async with database.single() as connection:
            row = (await connection.execute(_NEXT if new.conversation_id else _FIRST, parameters)).one()
        _check_room(row)
    except _NoRoom:
        return await _known_or_too_many(database, new)
    except IntegrityError as error:
        return await _refused_or_known(database, new, error)
    if row.id is None:
        raise await _not_there(database, new)
    return _admitted(new, row, new.question)


async def _admit_after(database: Database, new: NewTurn, parameters: dict[str, Any]) -> AdmittedTurn:
    """A first question that follows messages exchanged elsewhere: both are stored, or neither."""
    told = [
        {"id": new_id(), "position": position, "role": message.role, "content": message.content}
        for position, message in enumerate(new.earlier, 1)
    ]
    async with database.begin() as connection:
        begun = await connection.execute(_BEGIN_WITH, parameters | {"earlier": json.dumps(told)})
        if not begun.all():
            raise await _not_there(database, new)
        continued = parameters | {"conversation_id": new.new_conversation_id}
        row = (await connection.execute(_NEXT, continued)).one()
        _check_room(row)
    return _admitted(new, row, new.question)


async def admit_retry(database: Database, new: NewTurn) -> AdmittedTurn | KnownRequest:
    """Start a turn for a question that is already stored and has no answer; nothing changes when refused.

    `new.question_id` names the question; its stored text is what is asked.

    Raises:
        AppError: as admit; retry_not_question, retry_answered.
    """
    parameters = _parameters(new)
    try:
        async with database.begin() as connection:
            asked = (await connection.execute(_RETRIED, parameters)).one_or_none()
            if asked is None:
                raise AppError(RefusalCode.NOT_FOUND, "This conversation has no such message.")
            if asked.role != "user":
                raise AppError(RefusalCode.RETRY_NOT_QUESTION, "Only a question can be asked again.")
            if asked.later > asked.failed:
                raise AppError(
                    RefusalCode.RETRY_ANSWERED, "Only the last question, while it has no answer, can be asked again."
                )
            row = (await connection.execute(_RETRY, parameters)).one()
            _check_room(row)
            _check_base(new, row.base_name)
    except _NoRoom:
        return await _known_or_too_many(database, new)
    except IntegrityError as error:
        return await _refused_or_known(database, new, error)
    return _admitted(new, row, asked.content)


def _parameters(new: NewTurn) -> dict[str, Any]:
    given = {field: getattr(new, field) for field in NewTurn.__dataclass_fields__}
    reach = {name: None if given[name] is None else list(given[name]) for name in ("readable", "writable")}
    return given | reach | {"lease_s": LEASE_S}


def _admitted(new: NewTurn, row: Row[Any], question: str) -> AdmittedTurn:
    return AdmittedTurn(
        new.turn_id,
        str(row.id),
        new.question_id,
        str(row.base_id),
        row.base_name or new.base or "",
        new.owner,
        row.title,
        question,
        new.as_of,
        first=new.conversation_id is None and not new.earlier,
        replica=new.replica,
        may_write=row.may_write,
    )


async def _not_there(database: Database, new: NewTurn) -> AppError:
    """Why there was nothing to ask in: no such base, no such conversation of this owner, or one of another base."""
    if new.conversation_id is None:
        return AppError(RefusalCode.NOT_FOUND, f"There is no base named {new.base!r}.")
    async with database.single() as connection:
        actual = (await connection.execute(_BASE_OF, _parameters(new))).scalar_one_or_none()
    if actual is None:
        return AppError(RefusalCode.NOT_FOUND, "There is no such conversation.")
    return _other_base(actual)


def _check_base(new: NewTurn, actual: str | None) -> None:
    if actual is not None and new.base is not None and new.base != actual:
        raise _other_base(actual)


def _other_base(actual: str) -> AppError:
    message = f"This conversation belongs to the base {actual!r}; leave `base` out or name that one."
    return AppError(RefusalCode.INVALID, message)


class _NoRoom(Exception):
    """As many of the owner's turns run as may; whatever else the transaction did is taken back."""


def _check_room(row: Row[Any]) -> None:
    if not row.left:
        raise _NoRoom


async def _known_or_too_many(database: Database, new: NewTurn) -> KnownRequest:
    """What is told where there is no room: a request that comes again gets its turn, which may be one of those."""
    if new.request_id is not None and (known := await known_request(database, new)) is not None:
        return known
    most = new.most_running
    message = f"{most} of your questions are being answered, and no more than {most} may be at once; wait, or stop one."
    raise AppError(RefusalCode.TOO_MANY_TURNS, message, retry_after_s=TURN_RETRY_S)


async def _refused_or_known(database: Database, new: NewTurn, error: IntegrityError) -> KnownRequest:
    """Which uniqueness was violated decides what the caller is told.

    Raises:
        AppError: answer_running, unless the request id is already known; conflict where what it started isn't shown.
    """
    constraint = getattr(error.orig.__cause__, "constraint_name", None) if error.orig else None
    if new.request_id is not None:
        known = await known_request(database, new)
        if known is not None:
            return known
        if constraint == "uq_turns_owner_request_id":  # of a base that this token isn't for
            raise AppError(RefusalCode.CONFLICT, "This request_id was used for another question.") from None
    if constraint in ("uq_turns_one_running", "uq_messages_conversation_id_position"):
        message = "An answer is still being written in this conversation; attach to it, stop it, or wait."
        raise AppError(TurnErrorCode.ANSWER_RUNNING, message) from None
    raise error
