"""Bases, documents, facts, timeline, proposals and settings, as somebody works with them. Issue 6 item 3."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser, Page, expect
from sqlalchemy import URL

from app.store import bases, proposals
from app.store.ids import new_id
from app.store.proposals import NewProposal
from tests.browser.chromium import Person, person
from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint
from tests.harness.tcp_proxy import TcpProxy, tcp_proxy

# Dropped as a hand drops files: the browser's own event, with files made in the page.
_DROP = """(zone, files) => {
  const data = new DataTransfer();
  for (const [name, text] of files) data.items.add(new File([text], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    zone.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


@dataclass(frozen=True, slots=True)
class Empty:
    """A server without documents, a line to it that can be held back, and somebody before it."""

    app: App
    line: TcpProxy
    visitor: Person


@pytest.fixture
async def empty(
    chromium: Browser,
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
    endpoint: ScriptedEndpoint,
) -> AsyncGenerator[Empty, None]:
    """Not the sample base: what is put in here is all there is."""
    async with (
        new_database() as url,
        running_app(url, llm=endpoint.base_url) as app,
        tcp_proxy(("127.0.0.1", int(app.url.rpartition(":")[2]))) as line,
        person(chromium, f"http://127.0.0.1:{line.port}") as visitor,
    ):
        yield Empty(app, line, visitor)


async def test_files_are_dropped_followed_and_refused_with_the_reason(empty: Empty) -> None:
    """Progress while one is sent, ready when it can be found, and what can't be read says why; the page may be left."""
    page = await empty.visitor.open("/bases/default")
    await expect(page.get_by_text("This base has no documents yet.")).to_be_visible()
    zone = page.locator(".docs-drop")
    empty.line.pause()
    await zone.evaluate(
        _DROP, [["pelicans.md", "# Pelicans\n\nThe pelican eats fish.\n"], ["broken.pdf", "%PDF-1.7 broken"]]
    )
    uploads = page.get_by_role("region", name="Uploads")
    await expect(uploads.get_by_role("progressbar", name="pelicans.md")).to_be_visible()
    empty.line.resume()
    rows = uploads.get_by_role("listitem")
    await expect(rows.filter(has_text="pelicans.md").locator(".tag")).to_have_text("ready")
    failed = rows.filter(has_text="broken.pdf")
    await expect(failed.locator(".tag")).to_have_text("failed")
    await expect(failed.locator(".docs-why")).to_have_text(re.compile(r"^failed \S.{15,}"))
    await expect(page.locator(".docs-row")).to_have_count(2)
    await expect(page.locator(".docs-row").filter(has_text="broken.pdf").locator(".docs-why")).not_to_be_empty()
    await page.get_by_role("link", name="Settings").click()
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await page.go_back()
    await expect(uploads.get_by_role("listitem")).to_have_count(2)
    await page.get_by_role("button", name="Clear the finished").click()
    await expect(uploads).to_have_count(0)
    await page.locator(".docs-row").get_by_role("link", name="Pelicans").click()
    await expect(page.locator(".docs-passage")).to_contain_text("The pelican eats fish.")


async def test_files_can_be_chosen_too_and_a_document_deleted(empty: Empty) -> None:
    """By keyboard as by mouse; deleting asks first."""
    page = await empty.visitor.open("/bases/default")
    async with page.expect_file_chooser() as awaited:
        await page.get_by_role("button", name="Choose files").press("Enter")
    chooser = await awaited.value
    assert chooser.is_multiple()
    await chooser.set_files([{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The heron waits for a fish."}])
    row = page.locator(".docs-row")
    await expect(row.locator(".tag")).to_have_text("ready")
    await row.get_by_role("button", name=re.compile("^Delete")).click()
    await row.get_by_role("button", name="Delete the document").click()
    await expect(row).to_have_count(0)
    assert (await empty.app.http.get("/api/bases/default/documents")).json()["total"] == 0


async def test_a_base_is_made_and_asked(empty: Empty) -> None:
    """From the list of bases to a conversation that begins in the new one."""
    page = await empty.visitor.open("/bases")
    await page.get_by_role("button", name=re.compile("base", re.IGNORECASE)).first.click()
    await page.get_by_role("textbox").first.fill("birds")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="birds").first).to_be_visible()
    await page.goto(f"{empty.visitor.url}/?base=birds")
    await expect(page.get_by_role("combobox", name="Base")).to_have_value("birds")


async def test_a_proposal_is_nodded_to_changed_or_refused(empty: Empty) -> None:
    """One becomes a fact of its entity, one doesn't; focus goes on to the next, so that a hand can work through."""
    database = empty.app.parts.database
    base = await bases.ensure_default(database)
    rows = [("Ada Lovelace", "wrote", "the first program"), ("Grace Hopper", "wrote", "a compiler")]
    made = [
        NewProposal(
            {"subject": s, "predicate": p, "object": o, "from": "1843"}, f"{s} {p} {o}.", "remember", "local", new_id()
        )
        for s, p, o in rows
    ]
    await proposals.propose(database, base.id, made)
    page = await empty.visitor.open("/bases/default/proposals")
    entries = page.locator(".proposals-entry")
    await expect(entries).to_have_count(2)
    await entries.filter(has_text="Ada Lovelace").get_by_role("button", name=re.compile("^Accept")).click()
    await expect(entries).to_have_count(1)
    await expect(entries.get_by_role("button").first).to_be_focused()
    await entries.get_by_role("button", name=re.compile("^Refuse")).click()
    await expect(page.get_by_text("Nothing waits for a nod.")).to_be_visible()
    await page.get_by_role("button", name="Refused").click()
    await expect(entries).to_have_count(1)
    await expect(entries).to_contain_text("Grace Hopper")
    stored = (await empty.app.http.get("/api/bases/default/facts")).json()["facts"]
    assert [(f["subject"]["name"], f["predicate"], f["object"]["name"], f["from"]) for f in stored] == [
        ("Ada Lovelace", "wrote", "the first program", "1843")
    ]


async def test_a_timeline_is_read_by_mouse_and_by_keyboard(somebody: Person) -> None:
    """From the facts to an entity; a mark opens to its sentence, dates and passage, which opens the document there."""
    page = await somebody.open("/bases/default/facts")
    await page.get_by_role("searchbox", name="Search people, companies, things").fill("Helen Toner")
    await page.get_by_role("link", name="Helen Toner", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Helen Toner")
    marks = page.locator(".timeline-item")
    board = marks.and_(page.get_by_role("button", name=re.compile("member of the board of")))
    await board.hover()
    await expect(page.locator(".timeline-card-saying")).to_contain_text("member of the board of")
    await page.mouse.move(0, 0)
    await marks.first.focus()
    await page.keyboard.press("Enter")
    card = page.locator(".timeline-card.opened")
    await expect(card).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(card).to_have_count(0)
    await expect(marks.first).to_be_focused()
    await board.click()
    await card.get_by_role("link", name="Open the passage").click()
    await expect(page.locator(".docs-passage.wanted")).to_be_in_viewport()
    await expect(page.locator(".docs-passage.wanted")).to_contain_text("Toner")


async def test_settings_show_the_model_and_what_the_doctor_finds_but_no_secret(somebody: Person) -> None:
    """Neither in what is drawn nor in anything that was sent to the page."""
    page = await somebody.open("/settings")
    await expect(page.locator("main")).to_contain_text("scripted")
    await page.get_by_role("button", name="Check now").click()
    await expect(page.locator(".settings-findings").get_by_role("listitem").first).to_be_visible()
    assert "key-for-tests" not in await page.content()
    for request in somebody.asked("GET", "/api/settings") + somebody.asked("POST", "/api/doctor"):
        response = await request.response()
        assert response is not None
        assert "key-for-tests" not in await response.text()


async def test_an_address_of_nothing_says_so(somebody: Person) -> None:
    """And a document that isn't there."""
    page: Page = await somebody.open(f"/bases/default/documents/{new_id()}")
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.goto(f"{somebody.url}/bases/nowhere")
    await expect(page.get_by_role("alert")).to_be_visible()
