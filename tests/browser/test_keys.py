"""The keyboard: sending, new lines, `/`, Esc, the order of focus, and input methods. Issue 6 item 4."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import Person
from tests.browser.conversation import Conversation
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

SEARCH = call(("search_chunks", {"query": "board of OpenAI November 2023"}))
_WHERE = """() => {
  const one = document.activeElement;
  return one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent.trim();
}"""


async def test_enter_sends_and_shift_enter_begins_a_line(chat: Conversation, endpoint: ScriptedEndpoint) -> None:
    """A question of two lines is one question; what is only blanks isn't sent; the field is empty and ready after."""
    script = endpoint.script(SEARCH, text("Four members [1]."))
    await expect(chat.field).to_be_focused()
    await chat.page.keyboard.press("Enter")
    await chat.page.keyboard.type("  ")
    await chat.page.keyboard.press("Enter")
    await chat.field.fill("")
    await chat.page.keyboard.type("Who sat")
    await chat.page.keyboard.press("Shift+Enter")
    await chat.page.keyboard.type(f"on the board? {script}")
    await chat.page.keyboard.press("Enter")
    await chat.finished()
    await expect(chat.questions).to_have_text(f"Who sat\non the board? {script}")
    await expect(chat.field).to_have_value("")
    await expect(chat.field).to_be_focused()
    assert script.messages(0)[-1]["content"].startswith("Who sat\non the board?")


async def test_a_slash_goes_to_the_question_from_anywhere_but_a_field(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """And is a slash where one writes."""
    await chat.ask(f"Who sat on the board? {endpoint.script(SEARCH, text('Four members [1].'))}")
    await chat.finished()
    await chat.thread.focus()
    await chat.page.keyboard.press("/")
    await expect(chat.field).to_be_focused()
    await expect(chat.field).to_have_value("")
    await chat.page.keyboard.type("and/or")
    await expect(chat.field).to_have_value("and/or")
    search = chat.page.get_by_role("searchbox", name="Search conversations")
    await search.focus()
    await chat.page.keyboard.type("/")
    await expect(search).to_have_value("/")


async def test_esc_closes_the_sources_before_anything_else(chat: Conversation, endpoint: ScriptedEndpoint) -> None:
    """From inside the panel; the chip that opened it has the focus again."""
    await chat.ask(f"Who sat on the board? {endpoint.script(SEARCH, text('Four members [1].'))}")
    await chat.finished()
    chip = chat.answer.locator("button.cite")
    await chip.focus()
    await chat.page.keyboard.press("Enter")
    await expect(chat.panel.get_by_role("heading")).to_be_focused()
    await chat.page.keyboard.press("Escape")
    await expect(chat.panel).to_have_count(0)
    await expect(chip).to_be_focused()


async def test_the_order_of_focus_is_the_order_of_reading(chat: Conversation, endpoint: ScriptedEndpoint) -> None:
    """From the top: skip link, navigation, the conversation with step, number and buttons, then the question."""
    await chat.ask(f"Who sat on the board? {endpoint.script(SEARCH, text('Four members [1].'))}")
    await chat.finished()
    await chat.page.reload()
    await chat.finished()
    order: list[str] = []
    for _ in range(300):  # the list of conversations is as long as other tests made it
        await chat.page.keyboard.press("Tab")
        order.append(await chat.page.evaluate(_WHERE))
        if order[-1] == "Your question":
            break
    assert order[:4] == ["Skip to content", "turnstream", "+ New conversation", "Search conversations"]
    start = order.index("Settings")
    step = "Searched the documentsboard of OpenAI November 2023found"
    title = await chat.answer.locator("button.cite").get_attribute("aria-label")
    assert order[start - 1 :] == [
        "Knowledge", "Settings", "Export", "Conversation", step, title, "6 sources", "Copy", "Link", "Your question",
    ]  # fmt: skip


async def test_the_skip_link_leads_past_the_navigation(somebody: Person) -> None:
    """It is the first stop, seen when it has the focus."""
    page = await somebody.open("/settings")
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("#main")).to_be_focused()


@pytest.mark.parametrize("told", ["while it is open", "after its end"])
async def test_the_enter_that_ends_a_composition_sends_nothing(
    chat: Conversation, somebody: Person, endpoint: ScriptedEndpoint, told: str
) -> None:
    """Pinyin is being typed: the first Enter takes the characters, only the next one sends; Safari tells of it late."""
    script = endpoint.script(SEARCH, text("四名董事 [1]。"))
    keys: Any = await somebody.context.new_cdp_session(chat.page)
    await chat.field.focus()
    await keys.send("Input.imeSetComposition", {"text": "dong'shi", "selectionStart": 8, "selectionEnd": 8})
    await expect(chat.field).to_have_value("dong'shi")
    if told == "while it is open":
        await press_enter(keys, code=13)
    await keys.send("Input.insertText", {"text": "董事"})
    if told == "after its end":
        await press_enter(keys, code=229)
    await expect(chat.field).to_have_value("董事")
    await expect(chat.questions).to_have_count(0)
    await chat.page.keyboard.insert_text(f"会有谁 {script}")
    await chat.page.keyboard.press("Enter")
    await chat.finished()
    await expect(chat.questions).to_have_text(f"董事会有谁 {script}")
    assert len(somebody.asked("POST", "/api/chat")) == 1


async def press_enter(keys: Any, *, code: int) -> None:
    """Enter with that key code: 229 is what an input method's keys have."""
    for kind in ("rawKeyDown", "keyUp"):
        key = {"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": code}
        await keys.send("Input.dispatchKeyEvent", key)


async def test_on_a_phone_the_menu_opens_and_closes_by_keyboard(phone: Page) -> None:
    """Focus goes into the drawer, Esc gives it back to the button."""
    menu = phone.get_by_role("button", name="Menu", exact=True)
    await menu.focus()
    await phone.keyboard.press("Enter")
    drawer = phone.get_by_role("navigation")
    await expect(drawer.get_by_role("link", name="turnstream")).to_be_focused()
    await phone.keyboard.press("Escape")
    await expect(menu).to_be_focused()
    await expect(drawer).not_to_be_in_viewport()
