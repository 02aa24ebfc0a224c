"""Stop, Esc, and asking again what failed; also with more tabs than a browser has connections. Issue 6 items 1 and 2."""

import asyncio

from playwright.async_api import expect

from tests.browser.chromium import Person
from tests.browser.conversation import Conversation
from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, http, stream, text

SEARCH = call(("search_chunks", {"query": "board of OpenAI November 2023"}))
ENDLESS = stream(event({"content": "Four members "}), close="hang")


async def test_the_stop_button_ends_the_turn_and_keeps_what_was_written(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """The provider's connection is closed, the answer is stored as stopped, and the field is ready (case S04)."""
    script = endpoint.script(SEARCH, ENDLESS)
    await chat.ask(f"Who sat on the board? {script}")
    await chat.says("Four members")
    await chat.stop.click()
    await chat.finished()
    async with asyncio.timeout(5):
        await script.requests[1].closed.wait()
    await expect(chat.answer.get_by_text("Stopped before it was complete")).to_be_visible()
    assert await chat.flow() == ["<Searched the documents>", "Four members"]
    await chat.page.reload()
    await chat.finished()
    await expect(chat.answer.get_by_text("Stopped before it was complete")).to_be_visible()


async def test_esc_stops_and_a_follow_up_can_be_asked_at_once(chat: Conversation, endpoint: ScriptedEndpoint) -> None:
    """From the question field, where the hand is."""
    await chat.ask(f"Who sat on the board? {endpoint.script(SEARCH, ENDLESS)}")
    await chat.says("Four members")
    await chat.field.press("Escape")
    await chat.finished()
    await chat.ask(f"Who then? {endpoint.script(SEARCH, text('Ilya Sutskever [1].'))}")
    await chat.finished(2)
    assert await chat.flow() == ["<Searched the documents>", "Ilya Sutskever 1."]


async def test_a_failed_question_says_why_and_is_asked_again_in_place(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """The provider's reason without secrets; no second question appears, and the failed answer gives way."""
    refused = http(401, {"error": {"message": "Incorrect API key provided: key-for-tests"}})
    script = endpoint.script(refused, SEARCH, text("Four members [1]."))
    await chat.ask(f"Who sat on the board? {script}")
    await chat.finished()
    notice = chat.answer.locator(".notice.danger")
    await expect(notice).to_contain_text("Incorrect API key provided")
    await expect(notice).not_to_contain_text("key-for-tests")
    await expect(chat.answer.locator(".evidence")).to_have_count(0)
    await notice.get_by_role("button", name="Try again").click()
    await chat.says("Four members 1.")
    await chat.finished()
    await expect(chat.questions).to_have_count(1)
    await expect(chat.answer.locator(".notice")).to_have_count(0)
    await chat.page.reload()
    await chat.finished()
    await expect(chat.questions).to_have_count(1)
    assert await chat.flow() == ["<Searched the documents>", "Four members 1."]


async def test_ten_tabs_ask_at_once_and_stop_works_in_each(
    somebody: Person, app: App, endpoint: ScriptedEndpoint
) -> None:
    """No tab waits behind the others' streams, of which there are never more than four (case S08, decision 0014)."""
    tabs = [Conversation(page) for page in await asyncio.gather(*(somebody.open() for _ in range(10)))]
    scripts = [endpoint.script(SEARCH, ENDLESS) for _ in tabs]
    await asyncio.gather(*(tab.ask(f"Tell me {script}") for tab, script in zip(tabs, scripts, strict=True)))
    await asyncio.gather(*(script.request(1) for script in scripts))
    locks = await tabs[0].page.evaluate("navigator.locks.query()")
    assert len([lock for lock in locks["held"] if lock["name"].startswith("turnstream-stream-")]) == 4
    late = await somebody.open("/settings")
    await expect(late.get_by_role("heading", name="Settings")).to_be_visible()
    for tab, script in zip(tabs, scripts, strict=True):
        await tab.page.bring_to_front()
        await tab.stop.click()
        async with asyncio.timeout(5):
            await script.requests[1].closed.wait()
    await asyncio.gather(*(tab.finished() for tab in tabs))
    for tab in tabs:
        stored = (await app.messages(await tab.id()))[-1]
        assert stored["stopped"] is True
        assert await tab.flow() == ["<Searched the documents>", stored["content"].strip()]
