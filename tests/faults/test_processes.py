"""The product as processes: started as a user starts it, killed, ended, started again. Source: issue 1, DESIGN 3."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from app.store.engine import Database
from tests.harness.cluster import SKIP, by_progress
from tests.harness.postgres import PostgresServer
from tests.harness.replica import free_port, installed_replica, replica, run
from tests.harness.scripted_endpoint import ScriptedEndpoint, event, finish, stream
from tests.harness.scripted_endpoint import text as saying
from tests.harness.tab import Tab, browsing

ROOT = Path(__file__).parents[2]


async def test_the_sample_base_answers_offline_with_cited_passages_in_two_languages(folder: Path) -> None:
    """The main job on real input: take in sample/ and docs/, ask, read the stream; another process shares the server."""
    async with installed_replica(folder) as server:
        status, said = await run("ingest", str(ROOT / "sample"), str(ROOT / "docs"), data_dir=str(folder))
        assert status == 0, said
        assert "failed" not in said
        timeline = await server.ask("OpenAI 的时间线")
        assert timeline.done["evidence"] == "cited"
        assert {"2015", "2022", "2023"} <= {line[2:6] for line in timeline.answer.split("\n") if line.startswith("- ")}
        board = await server.ask("Who sat on the board when Sam Altman was removed?")
        assert board.done["evidence"] == "cited"
        for member in ("Greg Brockman", "Ilya Sutskever", "Adam D'Angelo", "Tasha McCauley", "Helen Toner"):
            assert member in board.answer
        again, said = await run("ingest", str(ROOT / "sample"), data_dir=str(folder))
        assert again == 0
        assert "known" in said
        assert "new" not in said


async def test_two_processes_on_one_data_folder_share_one_database(folder: Path) -> None:
    """Either may end first; what one stored the other serves."""
    async with replica(folder) as second:
        async with replica(folder) as first:
            turn = await first.ask("你好")
            assert turn.done["evidence"] == "skipped"
        stored = await second.http.get(f"/api/conversations/{turn.conversation_id}")
        assert [m["role"] for m in stored.json()["messages"]] == ["user", "assistant"]
        assert (await second.ask("你好")).done


@pytest.mark.parametrize("ended", ["kill -9", "SIGTERM"])
async def test_the_next_start_goes_on_with_a_turn_whose_process_ended(folder: Path, ended: str) -> None:
    """One process, no Redis: what was gathered is kept, the half-written text is written anew (case D04, issue 5)."""
    async with ScriptedEndpoint() as endpoint, browsing() as browser:
        gate = asyncio.Event()
        answer = stream(event({"content": "Half an "}), gate, event({"content": "answer."}), finish())
        script = endpoint.script(by_progress(SKIP, answer))
        given = {"llm_base_url": endpoint.base_url, "llm_model": "scripted", "drain_s": "0", "port": str(free_port())}
        tab = Tab(browser, [f"http://127.0.0.1:{given['port']}"])
        async with asyncio.TaskGroup() as tabs, database_of(folder) as database:
            async with replica(folder, **given) as server:
                tabs.create_task(tab.ask(f"Tell me {script}"))
                await tab.until(lambda: tab.content == "Half an ")
                if ended == "kill -9":
                    await until_written(database, "Half an ")
                    await server.kill()
                    async with database.begin() as connection:  # fifteen seconds pass, as far as leases know
                        await connection.execute(text("UPDATE turns SET lease_until = now() WHERE status = 'running'"))
            async with replica(folder, **given) as server:
                await script.request(2)
                gate.set()
                await tab.until(lambda: tab.ended)
                stored = (await server.http.get(f"/api/conversations/{tab.conversation_id}")).json()["messages"]
                assert [(m["role"], m["content"]) for m in stored[1:]] == [("assistant", "Half an answer.")]
                assert (stored[1]["steps"], stored[1]["id"]) == (tab.steps, tab.terminal.data["message_id"])
                assert (tab.content, len(tab.steps), len(script.requests)) == ("Half an answer.", 1, 3)
                assert script.messages(2) == script.messages(1)
                after = endpoint.script(by_progress(SKIP, saying("And so on.")))
                turn = await server.ask(f"And then? {after}", conversation_id=tab.conversation_id)
                assert turn.answer == "And so on."


@asynccontextmanager
async def database_of(folder: Path) -> AsyncGenerator[Database, None]:
    """The database of a data folder, shared with the processes that serve it."""
    postgres = await asyncio.to_thread(EmbeddedPostgres.start, EmbeddedConfig(folder))
    database = Database(postgres.url)
    try:
        yield database
    finally:
        await database.aclose()
        await asyncio.to_thread(postgres.stop)


async def until_written(database: Database, content: str) -> None:
    """Wait until a turn's text so far is written down; a second is what the product promises."""
    statement = text(
        "SELECT count(*) FROM turns t WHERE checkpoint IS NOT NULL AND :content ="
        " (SELECT string_agg(content, '' ORDER BY at) FROM turn_pieces WHERE turn_id = t.id)"
    )
    async with asyncio.timeout(5):
        while True:
            async with database.read() as connection:
                if (await connection.execute(statement, {"content": content})).scalar_one():
                    return
            await asyncio.sleep(0.05)


async def test_sigterm_ends_the_process_in_time_though_a_turn_never_ends(folder: Path) -> None:
    """Within the drain limit and the time to save, with status 0 (case S07)."""
    async with ScriptedEndpoint() as endpoint:
        script = endpoint.script(stream(event({"content": "..."}), close="hang"))
        model = {"llm_base_url": endpoint.base_url, "llm_model": "scripted", "drain_s": "0.5"}
        async with replica(folder, **model) as server:
            asking = asyncio.create_task(server.http.post("/api/chat", json={"message": f"Tell me {script}"}))
            await script.request(0)
            began = time.monotonic()
            assert await server.end() == 0
            assert time.monotonic() - began < 10
            assert (await asking).text.endswith("retry: 1000\n\n")


async def test_a_database_of_ones_own_is_used_and_migrated(postgres: PostgresServer, folder: Path) -> None:
    """With DATABASE_URL no embedded server is started."""
    async with postgres.new_database(migrated=False) as url:
        address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        async with replica(folder, database_url=address) as server:
            assert (await server.ask("你好")).done["evidence"] == "skipped"
        assert not (folder / "postgres").exists()


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("host", "0.0.0.0", "loopback"),
        ("database_url", "mysql://x:secret@y", "postgresql"),
    ],
)
async def test_a_wrong_setting_stops_the_start_with_one_line(
    folder: Path, setting: str, value: str, allowed: str
) -> None:
    """It names the variable, what was given (never a secret) and what is allowed."""
    status, said = await run("serve", data_dir=str(folder), **{setting: value})
    assert status == 2
    assert said.count("\n") == 1
    assert f"TURNSTREAM_{setting.upper()}" in said
    assert allowed in said
    assert "secret" not in said


async def test_a_database_that_can_not_be_reached_stops_the_start_with_one_line(folder: Path) -> None:
    """No traceback; the address without its password."""
    status, said = await run("serve", data_dir=str(folder), database_url="postgresql://u:secret@127.0.0.1:1/none")
    assert status == 2
    assert said.count("\n") == 1
    assert "secret" not in said
