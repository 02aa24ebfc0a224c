"""A page that goes away, a line that breaks, a server that starts again: the text is whole, nothing is seen twice.

Issue 6 item 2; cases S03, S09 and S10.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from playwright.async_api import Browser, Page, expect
from sqlalchemy import URL

from tests.browser.chromium import Person, person
from tests.browser.conversation import Conversation, only_grew
from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, call, event, finish, stream, text
from tests.harness.tcp_proxy import Target, TcpProxy

SEARCH = call(("search_chunks", {"query": "board of OpenAI November 2023"}))
HALF, REST = "Four members remained ", "besides Altman [1]."
WHOLE = f"{HALF}{REST}".replace("[1]", "1")


class Door(TcpProxy):
    """A proxy that can be made to lead elsewhere, as an address does when its server is started again."""

    def leads_to(self, target: Target) -> None:
        self._target = target


@dataclass
class Halfway:
    """An answer that stops in the middle until `gate` is set."""

    script: Script
    gate: asyncio.Event

    @classmethod
    def of(cls, endpoint: ScriptedEndpoint) -> "Halfway":
        gate = asyncio.Event()
        pieces = [event({"content": part}) for part in (HALF, REST)]
        return cls(endpoint.script(SEARCH, stream(pieces[0], gate, pieces[1], finish())), gate)


@asynccontextmanager
async def behind_door(chromium: Browser, url: str) -> AsyncGenerator[tuple[Door, Person], None]:
    """Somebody whose line to the server can be cut."""
    port = int(url.rpartition(":")[2])
    door = Door(("127.0.0.1", port))
    async with door.running(), person(chromium, f"http://127.0.0.1:{door.port}") as visitor:
        yield door, visitor


async def test_a_reload_in_the_middle_shows_what_was_there_and_goes_on(
    somebody: Person, endpoint: ScriptedEndpoint
) -> None:
    """The turn belongs to the server: the page that comes back attaches, and asks nothing again (case S03)."""
    half = Halfway.of(endpoint)
    chat = Conversation(await somebody.open())
    await chat.ask(f"Who sat on the board? {half.script}")
    await chat.says("Four members remained")
    await chat.page.reload()
    await chat.says("Four members remained")
    await expect(chat.answer.locator("details.step")).to_have_count(1)
    await expect(chat.questions).to_have_count(1)
    await expect(chat.stop).to_be_enabled()
    await chat.record()
    half.gate.set()
    await chat.finished()
    assert only_grew(await chat.states(), WHOLE)
    assert len(somebody.asked("POST", "/api/chat")) == 1
    await chat.page.reload()
    await chat.finished()
    assert await chat.flow() == ["<Searched the documents>", WHOLE]


async def test_a_page_that_was_closed_loses_nothing(somebody: Person, endpoint: ScriptedEndpoint) -> None:
    """The answer is finished without a reader and waits in the list (case S03)."""
    half = Halfway.of(endpoint)
    chat = Conversation(await somebody.open())
    await chat.ask(f"Who sat on the board? {half.script}")
    await chat.says("Four members remained")
    await chat.page.close()
    half.gate.set()
    page = await somebody.open("/settings")
    await page.get_by_role("region", name="Conversations").get_by_role("link", name=half.script.marker).click()
    chat = Conversation(page)
    await chat.finished()
    assert await chat.flow() == ["<Searched the documents>", WHOLE]


async def test_a_second_tab_shows_the_same_answer_as_it_grows(somebody: Person, endpoint: ScriptedEndpoint) -> None:
    """Both tabs show each character once; a question from one is seen in the other without a reload."""
    half = Halfway.of(endpoint)
    first = Conversation(await somebody.open())
    await first.ask(f"Who sat on the board? {half.script}")
    await first.says("Four members remained")
    second = Conversation(await somebody.open(f"/c/{await first.id()}"))
    await second.says("Four members remained")
    for tab in (first, second):
        await tab.record()
    half.gate.set()
    for tab in (first, second):
        await tab.finished()
        assert only_grew(await tab.states(), WHOLE)
    again = Halfway.of(endpoint)
    await second.ask(f"And then? {again.script}")
    await expect(first.answers).to_have_count(2)
    await first.says("Four members remained")
    again.gate.set()
    for tab in (first, second):
        await tab.finished(2)
        await expect(tab.questions).to_have_count(2)


async def test_a_line_that_breaks_is_mended_before_anybody_is_told(
    chromium: Browser, app: App, endpoint: ScriptedEndpoint
) -> None:
    """Nothing is said about a break that lasts less than two seconds; it goes on from the last id (case S10)."""
    half = Halfway.of(endpoint)
    async with behind_door(chromium, app.url) as (door, visitor):
        chat = Conversation(await visitor.open())
        await chat.ask(f"Who sat on the board? {half.script}")
        await chat.says("Four members remained")
        await chat.record()
        await _told_of_link(chat.page)
        async with chat.page.expect_request("**/live") as attached:
            door.cut()
            door.mend()
        again = await attached.value
        assert (await again.all_headers())["last-event-id"].rpartition(":")[2].isdigit()
        half.gate.set()
        await chat.finished()
        assert only_grew(await chat.states(), WHOLE)
        assert await chat.page.evaluate("links.map(([said]) => said)") == []
        assert len(visitor.asked("POST", "/api/chat")) == 1


async def test_reconnecting_is_said_after_two_seconds_and_taken_back(
    chromium: Browser, app: App, endpoint: ScriptedEndpoint
) -> None:
    """With the text kept as it was; a network that comes back is used at once, and nothing is seen twice."""
    half = Halfway.of(endpoint)
    async with behind_door(chromium, app.url) as (door, visitor):
        chat = Conversation(await visitor.open())
        await chat.ask(f"Who sat on the board? {half.script}")
        await chat.says("Four members remained")
        await chat.record()
        await _told_of_link(chat.page)
        cut_at = await chat.page.evaluate("Date.now()")
        door.cut()
        await visitor.context.set_offline(True)
        await expect(chat.progress).to_have_text("Connection lost. Reconnecting…")
        await expect(chat.page.get_by_role("status")).to_have_text("Connection lost. Reconnecting…")
        (_, said_at), *_ = await chat.page.evaluate("links")
        assert said_at - cut_at >= 1_990
        half.gate.set()
        door.mend()
        await visitor.context.set_offline(False)
        await chat.finished()
        await expect(chat.progress).to_have_count(0)
        assert only_grew(await chat.states(), WHOLE)


async def test_a_question_that_can_not_be_sent_keeps_its_words(
    chromium: Browser, app: App, endpoint: ScriptedEndpoint
) -> None:
    """Nothing is lost and nothing is asked twice: the same request id goes out again when it can (case S09)."""
    script = endpoint.script(SEARCH, text("Four members [1]."))
    async with behind_door(chromium, app.url) as (door, visitor):
        chat = Conversation(await visitor.open())
        await expect(chat.page.get_by_role("combobox", name="Base")).to_be_visible()
        door.cut()
        await visitor.context.set_offline(True)
        await chat.ask(f"Who sat on the board? {script}")
        await expect(chat.questions).to_contain_text("Who sat on the board?")
        door.mend()
        await visitor.context.set_offline(False)
        await chat.finished()
        await expect(chat.questions).to_have_count(1)
        sent = [request.post_data_json for request in visitor.asked("POST", "/api/chat")]
        assert len(sent) > 1
        assert len({json.dumps(body) for body in sent}) == 1
        assert len(script.requests) == 2


async def test_a_server_that_starts_again_in_the_middle_is_followed_to_the_end(
    chromium: Browser,
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
    endpoint: ScriptedEndpoint,
) -> None:
    """The page waits, attaches to the new process, and takes its snapshot for the whole, without doubling anything."""
    again = stream(event({"content": HALF}), event({"content": REST}), finish())
    broken = stream(event({"content": HALF}), close="hang")
    script = endpoint.script(SEARCH, broken, again)
    async with new_database() as url, running_app(url, llm=endpoint.base_url, drain_s=0) as first:
        await first.upload(
            "board.md", b"# The board of OpenAI in November 2023\n\nFour members remained besides Altman.\n"
        )
        async with behind_door(chromium, first.url) as (door, visitor):
            chat = Conversation(await visitor.open())
            await chat.ask(f"Who sat on the board? {script}")
            await chat.says("Four members remained")
            door.cut()
            first.server.should_exit = True
            async with running_app(url, llm=endpoint.base_url) as second:
                door.leads_to(("127.0.0.1", int(second.url.rpartition(":")[2])))
                door.mend()
                await chat.finished()
                assert await chat.flow() == ["<Searched the documents>", WHOLE]
                await chat.page.reload()
                await chat.finished()
                assert await chat.flow() == ["<Searched the documents>", WHOLE]


async def _told_of_link(page: Page) -> None:
    """Keep, with its moment, whatever the progress line says about the connection from now on."""
    await page.evaluate("""() => {
        globalThis.links = [];
        new MutationObserver(() => {
          const line = document.querySelector(".progress:not(.live)");
          if (line !== null && links.at(-1)?.[0] !== line.textContent) links.push([line.textContent, Date.now()]);
        }).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
    }""")
