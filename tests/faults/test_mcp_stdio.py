"""`turnstream mcp` as an MCP client starts it: a process with pipes. Source: DESIGN section 4, TOOLS M10, M12."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from sqlalchemy import URL

from app.tools.registry import load
from tests.harness.app import running_app
from tests.harness.postgres import PostgresServer
from tests.harness.replica import COMMAND, environment, run

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture(scope="module")
async def address(postgres: PostgresServer) -> AsyncGenerator[str, None]:
    """A migrated database, as TURNSTREAM_DATABASE_URL names it."""
    async with postgres.new_database() as url:
        yield _written(url)


def _written(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


@asynccontextmanager
async def process(**settings: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """The command with pipes, initialized: it serves. Killed where the block leaves it running."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        COMMAND, "mcp", stdin=pipe, stdout=pipe, stderr=pipe, env=environment(**settings), cwd=os.sep
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        started.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        async with asyncio.timeout(30):
            answer = json.loads(await started.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "turnstream"
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_tools_are_served_over_pipes(address: str, folder: Path, era: str) -> None:
    """The registry's list, results and refusals as over HTTP; the log is on stderr."""
    parameters = StdioServerParameters(command=COMMAND, args=["mcp"], env=environment(database_url=address))
    log = folder / "stderr"
    with log.open("w") as stderr:
        async with Client(stdio_client(parameters, errlog=stderr), mode=era) as mcp:
            listed = [tool.name for tool in (await mcp.list_tools()).tools]
            found = await mcp.call_tool("search-docs", {"query": "TURNSTREAM_DATABASE_URL"})
            empty = await mcp.call_tool("search_chunks", {"query": "board"})
            refused = await mcp.call_tool("search_chunks", {})
            with pytest.raises(MCPError, match="Unknown tool: nothing"):
                await mcp.call_tool("nothing", {})
    assert listed == [tool.name for tool in load() if not tool.chat_only]
    assert [r.is_error for r in (found, empty, refused)] == [False, False, True]
    texts = [block.text for r in (found, empty, refused) for block in r.content if isinstance(block, types.TextContent)]
    assert [text.split(":")[0] for text in texts] == ["OK", "EMPTY", "ERROR"]
    assert [s["n"] for s in found.structured_content["sources"]] == list(range(1, texts[0].count("\n[") + 1))
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["status"] for event in logged if event["event"] == "mcp_call"] == ["ok", "empty", "error"]


async def test_it_answers_beside_a_server_on_the_same_database(postgres: PostgresServer) -> None:
    """What is put into the base over HTTP is found at once."""
    async with (
        postgres.new_database() as url,
        running_app(url) as server,
        process(database_url=_written(url)) as started,
    ):
        assert (await _call(started, "search_chunks", {"query": "Ilmenau"})).startswith("EMPTY: ")
        await server.upload("orchard.md", b"# Orchard\n\nThe quinces of Ilmenau ripen late.")
        assert "quinces" in await _call(started, "search_chunks", {"query": "Ilmenau"})


async def _call(started: asyncio.subprocess.Process, name: str, arguments: dict[str, object]) -> str:
    result = await _ask(started, "tools/call", {"name": name, "arguments": arguments})
    return result["content"][0]["text"]


async def _ask(started: asyncio.subprocess.Process, method: str, params: dict[str, object]) -> dict[str, Any]:
    assert started.stdin is not None
    assert started.stdout is not None
    message = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    started.stdin.write(json.dumps(message).encode() + b"\n")
    async with asyncio.timeout(10):
        return json.loads(await started.stdout.readline())["result"]


async def test_lines_that_are_no_messages_are_passed_over(address: str) -> None:
    """Neither garbage nor bytes that are no text end the process."""
    async with process(database_url=address) as started:
        assert started.stdin is not None
        started.stdin.write(b"garbage\n\xff\xfe\n\n[]\n")
        assert "search_chunks" in [tool["name"] for tool in (await _ask(started, "tools/list", {}))["tools"]]


async def test_a_signal_ends_it_though_nothing_is_sent(folder: Path) -> None:
    """With status 0 and without waiting for a line; its embedded Postgres ends with it."""
    async with process(data_dir=str(folder)) as started:
        assert len(_postmaster_files(folder)) == 1
        started.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await started.wait() == 0
    assert _postmaster_files(folder) == []


async def test_ctrl_c_and_the_end_of_input_end_it_too(address: str) -> None:
    """With status 0; the second is how clients end it."""
    async with process(database_url=address) as interrupted, process(database_url=address) as left:
        interrupted.send_signal(signal.SIGINT)
        assert left.stdin is not None
        left.stdin.close()
        async with asyncio.timeout(10):
            assert (await interrupted.wait(), await left.wait()) == (0, 0)


def _postmaster_files(folder: Path) -> list[Path]:
    """A running cluster has one."""
    return list((folder / "postgres").resolve().rglob("postmaster.pid"))


async def test_a_client_that_goes_away_is_no_crash(address: str) -> None:
    """Nobody is there to read the answer: one line in the log, no traceback, status 0."""
    outgoing, write_end = os.pipe()
    started = await asyncio.create_subprocess_exec(
        COMMAND,
        "mcp",
        stdin=asyncio.subprocess.PIPE,
        stdout=write_end,
        stderr=asyncio.subprocess.PIPE,
        env=environment(database_url=address),
    )
    os.close(write_end)
    os.close(outgoing)
    _, said = await started.communicate(json.dumps(INITIALIZE).encode() + b"\n")
    assert started.returncode == 0
    assert b"mcp_client_gone" in said
    assert b"Traceback" not in said


async def test_a_base_that_is_not_there_stops_the_start(address: str) -> None:
    """One line, status 2, nothing on the wire."""
    status, said = await run("mcp", "--base", "nowhere", database_url=address, log_level="error")
    assert (status, said) == (2, "turnstream: There is no base named 'nowhere'.\n")
