"""What documents, facts, titles and models say is shown as text, and does nothing. Issue 6, cases K08 and T08.

Each payload calls `ran` or breaks the page's policy if it does anything; whoever visits (chromium.py) fails then, as
for a request to another host.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from sqlalchemy import URL

from app.store import proposals
from app.store.ids import new_id
from app.store.proposals import NewProposal
from tests.browser.chromium import person
from tests.browser.conversation import Conversation
from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

ELSEWHERE = "http://127.0.0.1:9"

HTML = [
    "<img src=x onerror=ran('img')>",
    f"<img src={ELSEWHERE}/pixel.png>",
    "<svg onload=ran('svg')><script>ran('svg script')</script></svg>",
    "<svg><a xlink:href=javascript:ran('svg link')><text y=9>svg link</text></a></svg>",
    f"<iframe srcdoc='<script>parent.ran(1)</script>' src={ELSEWHERE}/f></iframe>",
    "<script>ran('script')</script>",
    "<details open ontoggle=ran('toggle')>x</details>",
    "<math><mtext><table><mglyph><style><img src=x onerror=ran('mxss')></style></mglyph></table></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=ran(1)>'></noscript>",
    f"<style>@import '{ELSEWHERE}/s.css'; body {{ display: none }}</style>",
    f"<form action={ELSEWHERE}><button autofocus onfocus=ran('focus')>b</button></form>",
    f"<link rel=stylesheet href={ELSEWHERE}/l.css><base href={ELSEWHERE}>",
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}'>",
    "<a href=\"javascript:ran('a')\" onclick=ran('click')>a link of html</a>",
    f"<object data={ELSEWHERE}/o></object><embed src={ELSEWHERE}/e>",
    "<b id=app><i id=main name=location>clobber</i></b>",
    "<!--><img src=x onerror=ran('comment')>-->",
]
MARKDOWN = [
    "[script link](javascript:ran('md'))",
    "[script with blanks](java\tscript:ran('md'))",
    "[encoded](&#106;avascript:ran('md'))",
    "[upper](JaVaScRiPt:ran('md'))",
    "[vb](vbscript:ran('md'))",
    "[data](data:text/html,<script>ran('data')</script>)",
    "[file](file:///etc/passwd)",
    "[quote\" onmouseover=\"ran('q')](https://example.org/\"onmouseover=\"ran('q'))",
    '[titled](https://example.org "\\" onmouseover=ran(1) x=\\"")',
    "<javascript:ran('auto')>",
    f"![picture]({ELSEWHERE}/picture.png)",
    "![picture](data:image/svg+xml,<svg onload=ran(1)>)",
    "![x](x\"onerror=\"ran('image'))",
    f"[1]: {ELSEWHERE} \"onclick=ran('def')\"",
    "`<img src=x onerror=ran('code')>`",
    "```html\"onload=\"ran('lang')\n<script>ran('fence')</script>\n```",
    "```mermaid\ngraph TD; A[\"<img src=x onerror=ran('mermaid')>\"] --> B; click A \"javascript:ran('m')\"\n```",
    "$\\href{javascript:ran('katex')}{x}$",
    "| <img src=x onerror=ran('cell')> | [t](javascript:ran('t')) |\n| --- | --- |\n| <svg onload=ran('td')> | x |",
    "{{constructor.constructor(\"ran('template')\")()}}",
]
PAYLOADS = [*HTML, *MARKDOWN]
TITLE = "<img src=x onerror=ran('title')><script>ran('title')</script>"
OVERRIDE = "invoice\u202etxt.exe"


async def everything_is_inert(page: Page) -> None:
    """No element that could act came in: the page's own scripts only, no frame, no image, no link but to the web."""
    assert (
        await page.locator(
            "main :is(script, iframe, object, embed, img, svg:not(.timeline svg), form:not(.composer), link, base, meta, style)"
        ).count()
        == 0
    )
    hrefs: list[str] = await page.locator("main a[href]").evaluate_all(
        "(links) => links.map((a) => a.getAttribute('href'))"
    )
    assert [href for href in hrefs if not href.startswith(("https://", "http://", "/", "#", "mailto:"))] == []
    attributes: list[str] = await page.locator("main *").evaluate_all(
        "(all) => all.flatMap((one) => [...one.attributes].map(({ name }) => name)).filter((name) => name.startsWith('on'))"
    )
    assert attributes == []
    for link in await page.locator(".prose a[href]").all():
        await link.hover()


async def test_a_models_text_does_nothing_while_it_streams_and_after_a_reload(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """Cut into pieces of seven characters, so that each payload is painted in every state of being written."""
    answer = "\n\n".join([*PAYLOADS, "The end [1]."])
    script = endpoint.script(call(("search_chunks", {"query": TITLE})), text(answer, size=7))
    await chat.ask(f"{TITLE} {script}")
    await chat.says("The end 1.")
    await chat.finished()
    for _ in range(2):
        await expect(chat.answer).to_contain_text("<img src=x onerror=ran('img')>")
        await expect(chat.answer).to_contain_text("<script>ran('script')</script>")
        await expect(chat.answer.get_by_text("script link")).to_be_visible()
        await everything_is_inert(chat.page)
        assert await chat.answer.locator("a[href]").evaluate_all(
            "(links) => [...new Set(links.map((a) => a.rel))]"
        ) == ["noopener noreferrer"]
        await chat.page.reload()
        await chat.finished()
    await expect(chat.page.get_by_role("heading", level=1)).to_contain_text(TITLE)
    await expect(chat.questions).to_contain_text(TITLE)
    await expect(chat.answer.locator("details.step .step-label")).to_have_text(TITLE)


@pytest.mark.parametrize("payload", [TITLE, "javascript:ran('renamed')", f"![x]({ELSEWHERE}/title.png)"])
async def test_a_conversation_can_be_called_anything(
    chat: Conversation, app: App, endpoint: ScriptedEndpoint, payload: str
) -> None:
    """In the list, in the head, in the document's title and in the question about deleting it."""
    await chat.ask(f"Hello {endpoint.script(call(('no_evidence_needed', {'reason': payload})), text('Hi.'))}")
    await chat.finished()
    renamed = await app.http.patch(f"/api/conversations/{await chat.id()}", json={"title": payload})
    assert renamed.status_code == 200
    await chat.page.reload()
    await expect(chat.page.get_by_role("heading", level=1)).to_have_text(payload)
    await expect(chat.page).to_have_title(f"{payload} · turnstream")
    listed = chat.page.get_by_role("region", name="Conversations")
    await listed.get_by_role("button", name=f"Rename or delete “{payload}”").click()
    await listed.get_by_role("button", name="Delete", exact=True).click()
    await expect(listed.get_by_text("Delete this conversation?")).to_be_visible()
    await everything_is_inert(chat.page)


async def test_documents_sources_facts_and_proposals_are_shown_as_the_text_they_are(
    chromium: Browser,
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
    endpoint: ScriptedEndpoint,
) -> None:
    """In the source that opens, the documents, their passages, the entity, its timeline and what waits for a nod."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        await app.upload(f"{OVERRIDE}.md", f"# {TITLE}\n\nThe pelican says: {' '.join(PAYLOADS)}\n".encode())
        entity = await add_hostile_fact(app)
        async with person(chromium, app.url) as visitor:
            chat = Conversation(await visitor.open())
            script = endpoint.script(call(("search_chunks", {"query": "pelican"})), text("It says much [1]."))
            await chat.ask(f"What does the pelican say? {script}")
            await chat.finished()
            await chat.answer.locator("button.cite").click()
            await expect(chat.panel.locator(".sources-passage")).to_contain_text("<img src=x onerror=ran('img')>")
            await expect(chat.panel.get_by_role("heading")).to_contain_text("<script>ran('title')</script>")
            await everything_is_inert(chat.page)
            page = chat.page
            await page.goto(f"{app.url}/bases/default")
            row = page.locator(".docs-row")
            await expect(row).to_contain_text("invoice⟨U+202E⟩txt.exe.md")
            await everything_is_inert(page)
            await row.get_by_role("link").click()
            await expect(page.locator(".docs-passage").first).to_contain_text("<img src=x onerror=ran('img')>")
            await everything_is_inert(page)
            await page.goto(f"{app.url}/bases/default/facts")
            await expect(page.get_by_role("link", name=TITLE)).to_be_visible()
            await page.goto(f"{app.url}/bases/default/entities/{entity}")
            await expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
            mark = page.locator(".timeline-item")
            await mark.hover()
            await mark.click()
            await expect(page.locator(".timeline-card, .timeline-frame")).to_contain_text([TITLE])
            await everything_is_inert(page)
            await page.goto(f"{app.url}/bases/default/proposals")
            await expect(page.locator("main")).to_contain_text("<svg onload=ran('proposal')>")
            await everything_is_inert(page)


async def add_hostile_fact(app: App) -> str:
    """A fact and a proposal whose every word is a payload; the id of the entity that the fact is about."""
    fact: dict[str, Any] = {
        "subject": TITLE,
        "subject_type": "<b onclick=ran('type')>",
        "subject_aliases": ["javascript:ran('alias')"],
        "predicate": "<i onmouseover=ran('predicate')>",
        "object": "<svg onload=ran('object')>",
        "object_type": "x",
        "from": "2019",
        "to": "2023-11-17",
        "quote": "<img src=x onerror=ran('quote')>",
    }
    added = await app.http.post("/api/bases/default/facts", json={"rows": [fact]})
    assert added.json()["added"] == 1, added.text
    base_id = (await app.http.get("/api/bases/default")).json()["id"]
    proposed: dict[str, object] = {**fact, "value": None, "subject": "<svg onload=ran('proposal')>"}
    new = NewProposal(proposed, "<img src=x onerror=ran('sentence')>", "remember", "<b>", new_id())
    await proposals.propose(app.parts.database, base_id, [new])
    found = (await app.http.get("/api/bases/default/facts")).json()["facts"]
    return str(found[0]["subject"]["id"])
