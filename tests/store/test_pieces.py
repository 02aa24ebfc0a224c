"""A running turn's text in the store: each piece once, whole again for the next owner, gone with the turn's end.

Decision 0023. In which order owners write, lose and take turns is played through in tests/live/test_protocol_machine.
"""

import pytest
from sqlalchemy import text

from app.store import answers, leases, turns
from app.store.answers import Answer
from app.store.engine import Database
from app.store.ids import new_id
from app.store.leases import Draft
from app.store.turns import AdmittedTurn
from tests.harness.app import new_turn

PIECES = text("SELECT attempt, at, content FROM turn_pieces WHERE turn_id = CAST(:t AS uuid) ORDER BY attempt, at")
LAPSE = text("UPDATE turns SET lease_until = now() - interval '1 second' WHERE id = CAST(:t AS uuid)")


@pytest.fixture
async def turn(database: Database) -> AdmittedTurn:
    """A turn that the process "here" runs."""
    admitted = await turns.admit(database, new_turn("Who?", replica="here"))
    assert isinstance(admitted, AdmittedTurn)
    return admitted


async def pieces(database: Database, turn: AdmittedTurn) -> list[tuple[int, int, str]]:
    async with database.read() as connection:
        rows = (await connection.execute(PIECES, {"t": turn.turn_id})).all()
    return [(row.attempt, row.at, row.content) for row in rows]


async def taken(database: Database, turn: AdmittedTurn) -> str:
    """Let the lease lapse and have the process "there" take the turn: the text that it is given."""
    async with database.begin() as connection:
        await connection.execute(LAPSE, {"t": turn.turn_id})
    lost = await leases.take(database, "there", limit=1000)
    return next(each.content for each in lost if each.turn.turn_id == turn.turn_id)


def answer(turn: AdmittedTurn, *, replica: str = "here", attempt: int = 0) -> Answer:
    return Answer(
        turn_id=turn.turn_id,
        replica=replica,
        attempt=attempt,
        answer_id=new_id(),
        status="done",
        content="Whole.",
        steps=b"[]",
        sources=b"[]",
        resolved=b"[]",
        tool_exchange=b"[]",
        evidence="none",
        cited=b"[]",
        stopped=False,
        error_code=None,
        error_message=None,
        model="m",
        usage=b"{}",
        last_seq=9,
    )


async def test_pieces_are_kept_as_they_were_written_and_put_together_for_the_next_owner(
    database: Database, turn: AdmittedTurn
) -> None:
    """A write whose word was lost is made again with what has come since; characters count, not bytes."""
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 0, "Zoë 💡 ", 2, None)])
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 6, "is ", 3, None)])
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 6, "is here", 4, None)])
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 13, None, 5, b'{"kept_chars": 13}')])
    assert await pieces(database, turn) == [(0, 0, "Zoë 💡 "), (0, 6, "is here")]
    assert await taken(database, turn) == "Zoë 💡 is here"


async def test_an_owner_that_took_text_back_stands_in_place_of_those_before(
    database: Database, turn: AdmittedTurn
) -> None:
    """From its first piece on, though that is empty; what an earlier owner still writes changes nothing."""
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 0, "Taken back", 2, None)])
    assert await taken(database, turn) == "Taken back"
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 10, ", too late", 3, None)])
    await leases.write(database, "there", [Draft(turn.turn_id, 1, 0, "", 4, None)])
    assert await pieces(database, turn) == [(0, 0, "Taken back"), (1, 0, "")]
    await leases.write(database, "there", [Draft(turn.turn_id, 1, 0, "New", 5, None)])
    assert await answers.save(database, answer(turn)) == "not_ours"
    assert len(await pieces(database, turn)) == 2
    assert await answers.save(database, answer(turn, replica="there", attempt=1)) == "saved"
    assert await pieces(database, turn) == []


async def test_what_was_written_while_a_turn_ended_goes_with_the_next_writing(
    database: Database, turn: AdmittedTurn
) -> None:
    """Only of a turn that is over: one that was handed over keeps its text for the next owner."""
    await leases.write(database, "here", [Draft(turn.turn_id, 0, 0, "Half", 2, None)])
    await leases.write(database, "here", [], over=[turn.turn_id])
    assert await pieces(database, turn) == [(0, 0, "Half")]
    await answers.save(database, answer(turn))
    async with database.begin() as connection:
        late = "INSERT INTO turn_pieces VALUES (CAST(:t AS uuid), 0, 4, 'late')"
        await connection.execute(text(late), {"t": turn.turn_id})
    await leases.write(database, "here", [], over=[turn.turn_id])
    assert await pieces(database, turn) == []
