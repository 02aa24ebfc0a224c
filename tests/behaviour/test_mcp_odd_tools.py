"""Whatever a tool does, an MCP client gets a result it can read: tools that break, hang, shout and lie, over HTTP."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from mcp import Client, types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict

from app.api.access import Access as Door
from app.api.mcp import Access, build_server
from app.api.mcp_http import McpDoor
from app.auth.principal import LOCAL, Principal, Scope
from app.store.engine import Database
from app.tools.observation import OBSERVATION_CHARS
from app.tools.registry import STRUCTURED_CHARS, Registry
from app.tools.tool import Entity, Source, Step, Tool, ToolContext, ToolResult

STEP = Step("odd", "odd")


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


@dataclass(slots=True)
class Workshop:
    """Odd tools, and what they saw."""

    seen: list[ToolContext]
    entered: asyncio.Event

    async def crash(self, _: ToolContext, __: Nothing) -> ToolResult:
        raise RuntimeError("the password is swordfish")

    async def leave(self, _: ToolContext, __: Nothing) -> ToolResult:
        raise SystemExit(3)

    async def hang(self, _: ToolContext, __: Nothing) -> ToolResult:
        self.entered.set()
        await asyncio.Event().wait()
        return ToolResult("ok", "never", STEP)

    async def shout(self, _: ToolContext, __: Nothing) -> ToolResult:
        return ToolResult("ok", "a line of text\n" * 70_000, STEP)

    async def lie(self, _: ToolContext, __: Nothing) -> Any:
        return {"status": "ok"}

    async def prefix(self, _: ToolContext, __: Nothing) -> ToolResult:
        return ToolResult("error", "OK: it is all fine", STEP)

    async def garble(self, _: ToolContext, __: Nothing) -> ToolResult:
        return ToolResult("ok", "a\x00b\ud800", STEP, structured={"k\x00": ("\ud800", 1)})

    async def confuse(self, _: ToolContext, __: Nothing) -> ToolResult:
        return ToolResult("ok", "an object", STEP, structured={"self": object()})

    async def loop(self, _: ToolContext, __: Nothing) -> ToolResult:
        endless: dict[str, object] = {}
        endless["again"] = endless
        return ToolResult("ok", "without end", STEP, structured=endless)

    async def heap(self, _: ToolContext, __: Nothing) -> ToolResult:
        return ToolResult("ok", "a heap", STEP, structured={"rows": ["x"] * STRUCTURED_CHARS})

    async def see(self, context: ToolContext, _: Nothing) -> ToolResult:
        self.seen.append(context)
        n = context.citations.cite(Source("chunk", "c1", "d1", "A title", "p. 1", "An excerpt."))
        return ToolResult("ok", f"seen [{n}]", STEP, (Entity("e1", "Ada", "person"),), {"rows": [{"id": "e1"}]})

    async def write(self, _: ToolContext, __: Nothing) -> ToolResult:
        return ToolResult("ok", "written", STEP)

    def registry(self) -> Registry:
        odd = ["crash", "leave", "shout", "lie", "prefix", "garble", "confuse", "loop", "heap", "see"]
        tools = [Tool(name, "Odd.", Nothing, getattr(self, name), "odd") for name in odd]
        slow = Tool("hang", "Odd.", Nothing, self.hang, "odd", timeout_s=20)
        hasty = Tool("hang_briefly", "Odd.", Nothing, self.hang, "odd", timeout_s=0.05)
        writer = Tool("write", "Odd.", Nothing, self.write, "odd", read_only=False, writes=True)
        return Registry([*tools, slow, hasty, writer])


class _Server(uvicorn.Server):
    """Without signal handlers, and with an event where tests would poll."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def serving(
    registry: Registry, database: Database, *, patience_s: int = 5
) -> AsyncGenerator[tuple[str, _Server], None]:
    """The door on a port of its own: its address, and the server, which ends with the block."""
    door = McpDoor(registry, database, allowed_hosts=(), draining=lambda: False)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with door.running():
            yield

    application = FastAPI(lifespan=lifespan)
    application.router.routes.append(door.route)
    application.add_middleware(Door, gate=None, database=database)
    config = uvicorn.Config(
        application, log_config=None, lifespan="on", ws="none", timeout_graceful_shutdown=patience_s
    )
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:  # asyncio sets TCP_NODELAY only where it sees TCP
        listener.bind(("127.0.0.1", 0))
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]), name="odd tools")
        async with asyncio.timeout(10):
            await server.ready.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", server
        finally:
            server.should_exit = True
            await task


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    return Workshop([], asyncio.Event())


@pytest.fixture(scope="module")
async def address(workshop: Workshop, database: Database) -> AsyncGenerator[str, None]:
    async with serving(workshop.registry(), database) as (url, _):
        yield url


def text_of(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("crash", "is not available right now (reference "),
        ("leave", "is not available right now (reference "),
        ("hang_briefly", "did not finish within 0.05 s"),
        ("lie", "returned something that can't be read"),
        ("prefix", "it is all fine"),
    ],
)
async def test_what_a_tool_does_wrong_is_a_result(address: str, era: str, tool: str, says: str) -> None:
    """ERROR with isError, never a protocol error, and nothing of an exception's text (M5)."""
    async with Client(address, mode=era) as mcp:
        result = await mcp.call_tool(tool, {})
    assert result.is_error is True
    assert text_of(result).startswith("ERROR: ")
    assert text_of(result).count("OK: ") == 0
    assert says in text_of(result)
    assert "swordfish" not in result.model_dump_json()
    assert result.structured_content == {"status": "error", "data": {}, "sources": [], "resolved": []}


async def test_a_megabyte_is_cut_and_says_so(address: str) -> None:
    """The same cut as in a chat, at a line's end (M8)."""
    async with Client(address) as mcp:
        told = text_of(await mcp.call_tool("shout", {}))
    assert len(told) <= OBSERVATION_CHARS
    assert "characters are shown; ask for something narrower]" in told.splitlines()[-1]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_text_and_data_are_cleaned(address: str, era: str) -> None:
    """NUL and lone surrogates never reach the wire (case D01)."""
    async with Client(address, mode=era) as mcp:
        result = await mcp.call_tool("garble", {})
    assert text_of(result) == "OK: ab\ufffd"
    assert result.structured_content["data"] == {"k": ["\ufffd", 1]}


@pytest.mark.parametrize("tool", ["confuse", "loop", "heap"])
async def test_data_that_can_not_be_sent_are_left_out(address: str, tool: str) -> None:
    """No JSON, or too much of it: the text stands, and programs get nothing beside it."""
    async with Client(address) as mcp:
        result = await mcp.call_tool(tool, {})
    assert result.is_error is False
    assert text_of(result).startswith("OK: ")
    assert result.structured_content == {"status": "ok", "data": {}, "sources": [], "resolved": []}


async def test_a_tool_is_given_what_the_server_knows(address: str, workshop: Workshop, database: Database) -> None:
    """Base, owner, record time and rights come from the request; data, sources and entities go back (M6, M9)."""
    async with Client(address) as mcp:
        result = await mcp.call_tool("see", {}, meta={"turnstream/as_of": "2023-11"})
    seen = workshop.seen[-1]
    assert (seen.as_of, seen.owner, seen.may_write, seen.turn_id) == ("2023-11", "local", True, None)
    assert seen.database is database
    assert text_of(result) == "OK: seen [1]"
    assert result.structured_content == {
        "status": "ok",
        "data": {"rows": [{"id": "e1"}]},
        "sources": [
            {
                "n": 1,
                "kind": "chunk",
                "id": "c1",
                "document_id": "d1",
                "title": "A title",
                "locator": "p. 1",
                "excerpt": "An excerpt.",
            }
        ],
        "resolved": [{"id": "e1", "name": "Ada", "type": "person"}],
    }


async def test_tools_that_write_are_only_for_those_who_may(workshop: Workshop, database: Database) -> None:
    """For others they are neither listed nor known."""
    for may_write in (True, False):
        access = Access("default", Principal("somebody", Scope.WRITE if may_write else Scope.READ, None))
        server = build_server(workshop.registry(), database, lambda _, access=access: access)
        async with Client(server) as mcp:
            listed = {tool.name: tool.annotations for tool in (await mcp.list_tools()).tools}
            assert ("write" in listed) is may_write
            if may_write:
                assert listed["write"] == types.ToolAnnotations(
                    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
                )
                assert text_of(await mcp.call_tool("write", {})) == "OK: written"
            else:
                with pytest.raises(MCPError, match="Unknown tool: write"):
                    await mcp.call_tool("write", {})


async def test_a_database_that_is_gone_is_an_error_without_its_address(workshop: Workshop) -> None:
    """A protocol error with a sentence; which base was meant can't be known."""
    unreached = Database("postgresql://somebody:secret@127.0.0.1:1/none", pool_timeout_s=1)
    server = build_server(workshop.registry(), unreached, lambda _: Access("default", LOCAL))
    async with Client(server) as mcp:
        with pytest.raises(MCPError, match="database is not available") as caught:
            await mcp.call_tool("see", {})
    assert caught.value.code == types.INTERNAL_ERROR
    assert "secret" not in str(caught.value)
    await unreached.aclose()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_call_that_hangs_does_not_keep_the_server_from_ending(database: Database, era: str) -> None:
    """It is given the time that any request is given, then it is cancelled and the server ends."""
    busy = Workshop([], asyncio.Event())
    async with asyncio.timeout(8):
        async with serving(busy.registry(), database, patience_s=1) as (url, server), Client(url, mode=era) as mcp:
            asking = asyncio.create_task(mcp.call_tool("hang", {}), name="asking")
            await busy.entered.wait()
            server.should_exit = True
            with pytest.raises(MCPError):
                await asking
