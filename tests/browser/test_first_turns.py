"""The first three turns of the fifteen-turn script, over the sample base, as a reader sees them. Source: seed 001."""

import re
from typing import Any, cast

from playwright.async_api import Locator, expect

from tests.browser.conversation import Conversation
from tests.harness.scripted_endpoint import Body, Reply, ScriptedEndpoint, call, text

SEARCH = call(("search_chunks", {"query": "OpenAI 和 Anthropic 的关系"}), say="我先查一下文档。")
PATHS = call(("paths_between", {"a": "OpenAI", "b": "Anthropic"}), say="再看看图谱。")
RELATION = (
    "Anthropic 由离开 OpenAI 的人创办，两家公司互不持股 [4]。\n\n"
    "- 扬·莱克（Jan Leike）2024年5月28日宣布加入 Anthropic [5]。\n"
    "- 两家公司与谷歌、微软共同成立前沿模型论坛 [3]。\n"
)
SHOWN = """Anthropic 由离开 OpenAI 的人创办，两家公司互不持股 4。

扬·莱克（Jan Leike）2024年5月28日宣布加入 Anthropic 5。
两家公司与谷歌、微软共同成立前沿模型论坛 3。"""
QUOTED = "扬·莱克（Jan Leike）曾与苏茨克维共同领导 OpenAI 的超级对齐团队，2024 年 5 月辞职，2024年5月28日宣布加入 Anthropic。"


def timeline(body: Body) -> Reply:
    """Calls `timeline` for the entity that was found first."""
    told = cast("list[dict[str, Any]]", body["messages"])[-1]["content"]
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", told)
    assert found is not None, told
    return call(("timeline", {"entity_id": found[0]}))


async def test_the_first_three_turns_show_their_steps_sources_and_verdicts(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """Searched and cited; read from the graph; shortened with the number of the turn before kept. Issue 6 item 1."""
    await chat.ask(f"openai和anthropic关系 {endpoint.script(SEARCH, PATHS, text(RELATION))}")
    await chat.finished(1)
    assert await chat.flow() == [
        "我先查一下文档。",
        "<Searched the documents>",
        "再看看图谱。",
        "<Looked for a connection>",
        SHOWN,
    ]
    assert await chat.verdict() == ("cited", "Rests on 3 cited passages")
    await expect(chat.page.get_by_role("heading", level=1)).to_contain_text("openai和anthropic关系")

    said = "OpenAI 于2015年12月11日宣布成立 [1]。"
    await chat.ask(
        f"OpenAI 的时间线 {endpoint.script(call(('find_entities', {'name': 'OpenAI'})), timeline, text(said))}"
    )
    await chat.finished(2)
    assert await chat.flow() == ["<Looked up names>", "<Read the timeline>", "OpenAI 于2015年12月11日宣布成立 1。"]
    assert await chat.verdict() == ("cited", "Rests on one cited passage")

    shorter = endpoint.script(call(("no_evidence_needed", {"reason": "a rewording"})), text("2015年成立 [1]。"))
    await chat.ask(f"说短一点 {shorter}")
    await chat.finished(3)
    assert await chat.flow() == ["<Judged that no evidence is needed>", "2015年成立 1。"]
    assert await chat.verdict() == ("cited", "Rests on one cited passage")
    titles = [
        await answer.locator("button.cite").first.get_attribute("aria-label") for answer in await chat.answers.all()
    ]
    assert titles[1] == titles[2] != titles[0]


async def test_a_step_opens_to_what_was_called_and_what_came_of_it(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """Tool, label, detail, status and time; by mouse and by keyboard; a failed call and an empty one look different."""
    nothing = call(("search_chunks", {"query": "zyxwvut"}), ("search_chunks", {"query": ""}))
    await chat.ask(f"What? {endpoint.script(SEARCH, nothing, text('Nothing more [1].'))}")
    await chat.finished()
    steps = chat.answer.locator("details.step")
    assert [await step.get_attribute("class") for step in await steps.all()] == ["step ok", "step empty", "step error"]
    assert await _line(steps.nth(0)) == ["Searched the documents", "OpenAI 和 Anthropic 的关系", "found"]
    assert (await _line(steps.nth(1)))[2] == "nothing found"
    assert (await _line(steps.nth(2)))[2] == "failed"
    await expect(steps.nth(0).locator("dl")).to_be_hidden()
    await steps.nth(0).locator("summary").focus()
    await chat.page.keyboard.press("Enter")
    told = await steps.nth(0).locator("dl").inner_text()
    assert re.fullmatch(
        r"Tool\nsearch_chunks OpenAI 和 Anthropic 的关系\nResult\n6 passages in 1 document\nStatus\nfound\nTime\n\S.*",
        told,
    )
    await steps.nth(1).locator("summary").click()
    await expect(steps.nth(1).locator("dl")).to_be_visible()


async def test_a_number_opens_the_passage_with_the_quoted_sentence_marked(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """The whole stored passage, in it the sentence that the claim rests on; then the list; focus comes back."""
    await chat.ask(f"openai和anthropic关系 {endpoint.script(SEARCH, text(RELATION))}")
    await chat.finished()
    chip = chat.answer.get_by_role("button", name="Source 5: OpenAI 和 Anthropic 的关系")
    await chip.click()
    await expect(chat.panel.locator("mark")).to_have_text(QUOTED)
    await expect(chat.panel.locator(".sources-passage")).to_contain_text(
        "约翰·舒尔曼（John Schulman）2024年8月5日宣布离开 OpenAI"
    )
    await expect(chat.panel.get_by_role("heading")).to_have_text("5 OpenAI 和 Anthropic 的关系")
    await expect(chat.panel.get_by_role("heading")).to_be_focused()
    await expect(chat.panel.locator("mark")).to_be_in_viewport()

    await chat.panel.get_by_role("button", name="All sources").click()
    await expect(chat.panel.get_by_role("listitem")).to_have_count(6)
    cited = chat.panel.get_by_role("listitem").filter(has=chat.page.locator(".tag.ok"))
    assert [await entry.locator(".cite").inner_text() for entry in await cited.all()] == ["3", "4", "5"]
    await chat.page.keyboard.press("Escape")
    await expect(chat.panel).to_have_count(0)
    await expect(chip).to_be_focused()


async def test_an_answer_without_evidence_is_seen_as_such(chat: Conversation, endpoint: ScriptedEndpoint) -> None:
    """Each verdict has words of its own, and all but a cited answer say what that means."""
    uncited = endpoint.script(SEARCH, text("They compete."))
    skipped = endpoint.script(call(("no_evidence_needed", {"reason": "a greeting"})), text("你好！"))
    none = endpoint.script(call(("search_chunks", {"query": "zyxwvut"})), text("I think so."))
    seen: list[tuple[str, str]] = []
    for count, script in enumerate((uncited, skipped, none), 1):
        await chat.ask(f"Well? {script}")
        await chat.finished(count)
        seen.append(await chat.verdict())
    assert [(code, told.split("\n")[0]) for code, told in seen] == [
        ("uncited", "Cites none of the passages found"),
        ("skipped", "Answered without looking for evidence"),
        ("none", "No evidence found"),
    ]
    assert all(len(told.split("\n")[-1]) > 40 for _, told in seen)


async def _line(step: Locator) -> list[str]:
    return [await step.locator(f".step-{part}").inner_text() for part in ("tool", "label", "status")]
