"""The answer is saved before the turn says done, in few statements, holding no connection. DESIGN sections 2, 5, 8."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from sqlalchemy import URL, event

from tests.harness.app import App, Turn, check_contract, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, finish, stream, text
from tests.harness.scripted_endpoint import event as chunk
from tests.harness.sse_reader import frames_of

SEARCH = call(("search_chunks", {"query": "board"}))


@asynccontextmanager
async def counted(app: App) -> AsyncGenerator[list[str], None]:
    """The statements that turns send meanwhile; the housekeeping's are left out."""
    statements: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        leases = "lease_until" in statement and "INSERT" not in statement
        if not leases and "reading_until" not in statement and "procrastinate" not in statement:
            statements.append(" ".join(statement.split())[:120])

    engine = app.parts.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def test_a_turn_takes_at_most_eight_statements_beside_checkpoints(app: App, endpoint: ScriptedEndpoint) -> None:
    """Admission, history, two searches and the save, in a conversation that has a past."""
    first = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    script = endpoint.script(SEARCH, call(("search_chunks", {"query": "Altman"})), text("Four [1]."))
    async with counted(app) as statements:
        await app.ask(f"And then? {script}", conversation_id=first.conversation_id)
    beside = [s for s in statements if "UPDATE turns SET last_seq = d.last_seq" not in s]
    assert len(beside) <= 8, beside


async def test_no_connection_is_held_while_a_model_or_a_reader_is_waited_for(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """With ten turns waiting and twenty tabs attached the pool is all there, and a list answers (case D03)."""
    gate = asyncio.Event()
    reply = stream(chunk({"content": "Wait "}), gate, chunk({"content": "over [1]."}), finish())
    scripts = [endpoint.script(SEARCH, reply) for _ in range(10)]
    asking = [asyncio.create_task(app.ask(f"Wait {script}")) for script in scripts]
    for script in scripts:
        await script.request(1)
    await until_at_rest(app)
    assert (await app.http.get("/api/conversations")).status_code == 200
    await until_at_rest(app)
    gate.set()
    assert [t.answer for t in await asyncio.gather(*asking)] == ["Wait over [1]."] * 10


async def until_at_rest(app: App) -> None:
    """Wait for the moment at which no connection is out; background workers take one now and then."""
    pool: Any = app.parts.database.engine.pool
    async with asyncio.timeout(10):
        while pool.checkedout():
            await asyncio.sleep(0)


async def test_a_database_that_goes_away_ends_the_turn_as_not_saved_and_the_process_lives_on(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """answer_not_saved, never done; when the database is back the partial answer is stored as failed."""
    gate = asyncio.Event()
    reply = stream(chunk({"content": "Four "}), gate, chunk({"content": "members."}), finish())
    script = endpoint.script(call(("no_evidence_needed", {"reason": "test"})), reply)
    async with new_database() as url, running_app(url, llm=endpoint.base_url, save_timeout_s=0.5) as app:
        turn = Turn()
        async with app.stream(f"Tell me {script}") as response:
            async for frame in frames_of(response):
                turn.frames.append(frame)
                if frame.event == "delta" and not gate.is_set():
                    await app.execute("ALTER TABLE messages RENAME TO messages_away")
                    gate.set()
        check_contract(turn)
        assert turn.error["code"] == "answer_not_saved"
        assert turn.answer == "Four members."
        assert (await app.http.get("/healthz")).status_code == 200
        refused = await app.http.get(f"/api/conversations/{turn.conversation_id}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
        await app.execute("ALTER TABLE messages_away RENAME TO messages")
        await app.parts.supervisor.keep_house()
        stored = (await app.messages(turn.conversation_id))[-1]
        assert (stored["content"], stored["error_code"]) == ("Four members.", "answer_not_saved")
        again = endpoint.script(call(("no_evidence_needed", {"reason": "test"})), text("Here."))
        assert (await app.ask(f"Now? {again}", conversation_id=turn.conversation_id)).answer == "Here."


async def test_a_failing_search_is_an_error_to_the_model_and_never_empty(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """The store's fault says nothing about the base, and its text isn't shown."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        await app.execute("ALTER TABLE chunks RENAME TO chunks_away")
        script = endpoint.script(SEARCH, text("It can't be looked up now."))
        turn = await app.ask(f"How many? {script}")
        assert [s["status"] for s in turn.of("step")] == ["error"]
        told = script.messages(1)[-1]["content"]
        assert told.startswith("ERROR: ")
        assert "chunks" not in told.replace("search_chunks", "")
        assert turn.done["evidence"] == "none"


async def test_a_turn_writes_its_text_and_exchange_while_it_runs(app: App, endpoint: ScriptedEndpoint) -> None:
    """After a round the exchange is in the checkpoint, and within a second the text (DESIGN section 8)."""
    gate = asyncio.Event()
    reply = stream(chunk({"content": "Growing "}), gate, chunk({"content": "text [1]."}), finish())
    script = endpoint.script(SEARCH, reply)
    asking = asyncio.create_task(app.ask(f"Grow {script}"))
    await script.request(1)
    rows: list[Any] = []
    async with asyncio.timeout(15):
        while not rows:
            rows = await app.rows(
                "SELECT t.checkpoint FROM turns t JOIN messages q ON q.id = t.question_id "
                "JOIN turn_pieces p ON p.turn_id = t.id "
                "WHERE t.status = 'running' AND q.content = :asked AND p.content = 'Growing '",
                asked=f"Grow {script}",
            )
    checkpoint = rows[0].checkpoint
    assert [m["role"] for m in checkpoint["tool_exchange"]] == ["assistant", "tool"]
    assert (checkpoint["sources"][0]["n"], checkpoint["kept_chars"], checkpoint["ledger"]["rounds"]) == (1, 0, 1)
    gate.set()
    turn = await asking
    left = "(SELECT count(*) FROM turn_pieces WHERE turn_id = t.id)"
    rows = await app.rows(f"SELECT status, checkpoint, {left} FROM turns t WHERE id = CAST(:t AS uuid)", t=turn.turn_id)
    assert tuple(rows[0]) == ("done", None, 0)


async def test_a_stop_asked_for_elsewhere_is_heard(app: App, endpoint: ScriptedEndpoint) -> None:
    """The mark in the database is enough; no message between processes is needed (case D08)."""
    script = endpoint.script(SEARCH, stream(chunk({"content": "Half "}), close="hang"))
    asking = asyncio.create_task(app.ask(f"Tell me {script}"))
    await script.request(1)
    await app.execute("UPDATE turns SET stop_requested = true WHERE status = 'running'")
    await app.parts.supervisor.keep_house()
    assert (await asking).done["stopped"] is True
