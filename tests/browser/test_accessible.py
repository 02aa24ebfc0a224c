"""axe-core finds nothing serious on any view, in light, in dark and on a phone. Issue 6 item 4."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
from playwright.async_api import Page, expect

from app.store import proposals
from app.store.ids import new_id
from app.store.proposals import NewProposal
from tests.browser.axe import COLOURS, EVERYTHING, violations
from tests.browser.chromium import Person
from tests.browser.conversation import Conversation
from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, http, text

SEARCH = call(("search_chunks", {"query": "board of OpenAI November 2023"}), say="Let me look.")
ANSWER = """## The board

Four members remained [1], and `one` left [2, 3]:

| Member | Since |
| --- | --- |
| Helen Toner | 2021 [1] |

```
a line of code
```

> A quotation, and [a link](https://example.org).
"""

LOOKS: tuple[tuple[Literal["light", "dark"], int, tuple[str, ...]], ...] = (
    ("light", 1280, EVERYTHING),
    ("dark", 1280, COLOURS),
    ("dark", 390, EVERYTHING),
)

Steps = Callable[[Page, App, ScriptedEndpoint], Awaitable[None]]


async def start(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await expect(page.get_by_role("combobox", name="Base")).to_be_visible()


async def answer(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    chat = Conversation(page)
    await chat.ask(f"Who sat on the board? {endpoint.script(SEARCH, text(ANSWER))}")
    await chat.finished()
    await chat.answer.locator("summary").click()


async def source(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await answer(page, app, endpoint)
    await page.locator("button.cite").first.click()
    await expect(page.get_by_role("complementary", name="Sources").locator(".sources-passage")).to_be_visible()


async def trouble(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    chat = Conversation(page)
    refused = http(401, {"error": {"message": "Incorrect API key provided"}})
    await chat.ask(f"Who sat on the board? {endpoint.script(refused)}")
    await chat.finished()
    await chat.ask(f"Who sat where? {endpoint.script(SEARCH, text('Nobody knows.'))}")
    await chat.finished(2)


async def documents(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await page.goto(f"{app.url}/bases/default")
    await expect(page.locator(".docs-row").first).to_be_visible()


async def document(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await documents(page, app, endpoint)
    await page.locator(".docs-row").first.get_by_role("link").click()
    await expect(page.locator(".docs-passage").first).to_be_visible()


async def facts(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await page.goto(f"{app.url}/bases/default/facts")
    await expect(page.get_by_role("link", name="OpenAI", exact=True).first).to_be_visible()


async def timeline(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await facts(page, app, endpoint)
    await page.get_by_role("searchbox", name="Search people, companies, things").fill("Helen Toner")
    await page.get_by_role("link", name="Helen Toner", exact=True).click()
    mark = page.locator(".timeline-item").first
    await mark.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".timeline-card.opened")).to_be_visible()


async def waiting(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    base_id = (await app.http.get("/api/bases/default")).json()["id"]
    fact = {"subject": "Helen Toner", "predicate": "member of the board of", "object": "OpenAI", "from": "2021"}
    new = NewProposal(dict[str, object](fact), "Helen Toner joined in 2021.", "remember", "local", new_id())
    await proposals.propose(app.parts.database, base_id, [new])
    await page.goto(f"{app.url}/bases/default/proposals")
    await expect(page.get_by_role("button", name="Accept").first).to_be_visible()


async def evidence(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await answer(page, app, endpoint)
    await page.goto(f"{app.url}/bases/default/evidence")
    await expect(page.locator(".verdicts-chart svg")).to_be_visible()


async def settings(page: Page, app: App, endpoint: ScriptedEndpoint) -> None:
    await page.goto(f"{app.url}/settings")
    await page.get_by_role("button", name="Check now").click()
    await expect(page.locator(".settings-findings")).to_be_visible()


@pytest.mark.parametrize(
    "reached",
    [start, answer, source, trouble, documents, document, facts, timeline, waiting, evidence, settings],
    ids=lambda steps: steps.__name__,
)
async def test_a_view_can_be_read_by_everybody(
    somebody: Person, app: App, endpoint: ScriptedEndpoint, reached: Steps
) -> None:
    """Contrast, names, roles, order: nothing serious, in either colour scheme, wide and narrow; nothing is cut off."""
    page = await somebody.open("/")
    await page.emulate_media(reduced_motion="reduce")  # colours that change slowly would be measured on their way
    await reached(page, app, endpoint)
    found: dict[str, list[dict[str, Any]]] = {}
    for scheme, width, rules in LOOKS:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 844})
        found[f"{scheme} {width}"] = await violations(page, rules)
        assert await page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), width
    assert {seen: wrong for seen, wrong in found.items() if wrong} == {}
