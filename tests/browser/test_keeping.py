"""What a person keeps: the list of conversations, an export, a copied answer, a link to a message; and in Chinese.

Issue 6 items 3 to 5.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect
from sqlalchemy import URL

from tests.browser.chromium import Person, person
from tests.browser.conversation import Conversation
from tests.harness.app import running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

SEARCH = call(("search_chunks", {"query": "OpenAI 和 Anthropic 的关系"}), say="Let me look.")
LONG = "\n\n".join(f"Paragraph {n} says what the one before said." for n in range(60))


async def test_conversations_are_found_renamed_and_deleted(somebody: Person, endpoint: ScriptedEndpoint) -> None:
    """By search and by hand; another tab follows; what is deleted is gone, also from its own address."""
    chat = Conversation(await somebody.open())
    await chat.ask(f"Where do pelicans nest? {endpoint.script(SEARCH, text('Nowhere [1].'))}")
    await chat.finished()
    other = await somebody.open()
    await chat.page.bring_to_front()
    listed = chat.page.get_by_role("region", name="Conversations")
    await listed.get_by_role("searchbox").fill("no such words anywhere")
    await expect(listed.get_by_text("No conversation matches")).to_be_visible()
    await listed.get_by_role("searchbox").fill("pelicans nest")
    await expect(listed.get_by_role("listitem")).to_have_count(1)
    await listed.get_by_role("button", name=re.compile("^Rename or delete")).click()
    await listed.get_by_role("button", name="Rename", exact=True).click()
    await listed.get_by_role("textbox", name="Title").fill("About pelicans 鹈鹕")
    await chat.page.keyboard.press("Enter")
    await expect(chat.page.get_by_role("heading", level=1)).to_have_text("About pelicans 鹈鹕")
    await expect(chat.page).to_have_title("About pelicans 鹈鹕 · turnstream")
    await expect(other.get_by_role("link", name="About pelicans 鹈鹕")).to_be_visible()

    await listed.get_by_role("searchbox").fill("鹈鹕")
    entry = listed.get_by_role("listitem")
    await expect(entry).to_have_count(1)
    gone = chat.page.url
    await entry.get_by_role("button", name="Rename or delete “About pelicans 鹈鹕”").click()
    await entry.get_by_role("button", name="Delete", exact=True).click()
    await entry.get_by_role("group").get_by_role("button", name="Delete").click()
    await expect(entry).to_have_count(0)
    await expect(chat.page).to_have_url(f"{somebody.url}/")
    await expect(other.get_by_role("link", name="About pelicans 鹈鹕")).to_have_count(0)
    await other.goto(gone)
    await expect(other.get_by_role("alert")).to_have_text("This conversation doesn't exist, or not any more.")


async def test_a_conversation_is_exported_as_markdown_with_its_sources(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """Named by its title; questions quoted, answers as they were written, each with its verdict and what it cites."""
    script = endpoint.script(SEARCH, text("**Anthropic** 由离开 OpenAI 的人创办 [4]。"))
    await chat.ask(f"How are they related? {script}")
    await chat.finished()
    async with chat.page.expect_download() as awaited:
        await chat.page.get_by_role("button", name="Export").click()
    download = await awaited.value
    assert download.suggested_filename == f"How are they related  {script}.md".replace(":", " ")
    written = await asyncio.to_thread(Path(await download.path()).read_text, "utf-8")
    lines = written.splitlines()
    assert lines[0] == f"# How are they related? {script}"
    assert lines[2].endswith("Base: default")
    body = written.partition("## You")[2]
    assert body.startswith(
        f"\n\n> How are they related? {script}\n\n## Answer\n\nLet me look.\n\n**Anthropic** 由离开 OpenAI 的人创办 [4]。\n\n"
        "*Rests on one cited passage.*\n\n### Sources\n\n1. **OpenAI 和 Anthropic 的关系, "
    )
    assert re.search(r"^4\. \*\*OpenAI 和 Anthropic 的关系.*两家公司互不持股", body, re.MULTILINE)


async def test_an_answer_is_copied_as_markdown_and_a_link_leads_to_it(
    somebody: Person, endpoint: ScriptedEndpoint
) -> None:
    """The link opens the conversation at that answer, in another tab too, however much stands behind it."""
    await somebody.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat = Conversation(await somebody.open())
    first, second = f"{LONG}\n\n**The first** end [1].", f"**Second** [1].\n\n{LONG}"
    await chat.ask(f"First? {endpoint.script(SEARCH, text(first))}")
    await chat.finished()
    await chat.ask(f"Second? {endpoint.script(SEARCH, text(second))}")
    await chat.finished(2)
    await chat.answer.get_by_role("button", name="Copy", exact=True).click()
    await expect(chat.answer.get_by_role("button", name="Copied")).to_be_visible()
    copied: str = await chat.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"Let me look.\n\n{second}"
    await chat.answer.get_by_role("button", name="Link", exact=True).click()
    await expect(chat.answer.get_by_role("button", name="Link copied")).to_be_visible()
    link: str = await chat.page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"{somebody.url}/c/[0-9a-f-]{{36}}#m-[0-9a-f-]{{36}}", link)
    other = Conversation(await somebody.open(link.removeprefix(somebody.url)))
    await expect(other.answer).to_have_class(re.compile("target"))
    await expect(other.answer.get_by_text("Second 1.")).to_be_in_viewport()
    await expect(other.answers.first.get_by_text("Paragraph 5 says")).not_to_be_in_viewport()


async def test_the_interface_speaks_chinese_where_the_browser_does(
    chromium: Browser,
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
    endpoint: ScriptedEndpoint,
) -> None:
    """Every word of it, also the moments and the document's language; what documents say stays as it is."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        await app.upload("关系.md", "# 关系\n\n两家公司互不持股，主要投资方也不同。\n".encode())
        async with person(chromium, app.url, locale="zh-CN") as visitor:
            page = await visitor.open()
            await expect(page.locator("html")).to_have_attribute("lang", re.compile("^zh"))
            await expect(page.get_by_role("heading", level=1)).to_have_text("向文档提问，看清答案从何而来。")
            field = page.get_by_role("textbox", name="你的问题")
            search = call(("search_chunks", {"query": "互不持股"}))
            await field.fill(f"两家公司互相持股吗？{endpoint.script(search, text('互不持股 [1]。'))}")
            await page.get_by_role("button", name="发送").click()
            answer = page.get_by_role("article", name="回答")
            await expect(answer.locator(".evidence")).to_have_text("依据 1 个引用段落")
            await answer.locator("summary").click()
            assert await english(answer.locator(":not(dd) > bdi, dt, .step-tool, .step-status, .answer-foot")) == []
            for path in ("/bases", "/bases/default", "/bases/default/facts", "/bases/default/proposals", "/settings"):
                await page.goto(f"{app.url}{path}")
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.get_by_text("正在加载…")).to_have_count(0)
                buttons = page.locator("main :is(button, label, h2, .view-head)")
                assert await english(buttons) == [], path


async def english(places: Any) -> list[str]:
    """The texts among those places that hold an English sentence: three words of small letters in a row."""
    texts: list[str] = await places.all_inner_texts()
    return [one for one in texts if re.search(r"\b[A-Za-z]?[a-z]+ [a-z]+ [a-z]+\b", one)]
