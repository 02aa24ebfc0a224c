"""Reading an answer while it grows: offsets, directions, scrolling, what a screen reader is told, long answers.

Issue 6 item 4; cases T01, T03, T04, T06, T08 and S15.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
from playwright.async_api import expect

from tests.browser.chromium import Person
from tests.browser.conversation import Conversation
from tests.harness.app import App
from tests.harness.scripted_endpoint import Piece, ScriptedEndpoint, call, event, finish, stream, text

SEARCH = call(("search_chunks", {"query": "board of OpenAI November 2023"}))
PARAGRAPH = "The board had six members until November 2023, and four of them removed the chief executive. "
BLOCKS = f"## Part {{n}}:\n\n{PARAGRAPH * 7}[1]\n\n- *one*\n- **two** `three`\n\n```\n{PARAGRAPH}\n```\n\n"
ONE_BLOCK = f"Part {{n}}: {PARAGRAPH * 7}[1] *one* **two** `three` {PARAGRAPH} "
ARABIC = "`run.sh -v` هو الأمر الذي ذكره Sam Altman في التقرير [[1]]."


async def test_steps_stand_where_they_happened_behind_emoji_and_combined_characters(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """`at` counts UTF-16 units, as the page slices: no character is cut, no step drifts; again after a reload (T01)."""
    before, family = "A🦀🧭 中e\u0301", "👨‍👩‍👧🇳🇴𩸽"
    script = endpoint.script(
        call(("search_chunks", {"query": "board"}), say=before),
        call(("search_chunks", {"query": "Altman"}), say=family),
        text("Done 🧭 [1]."),
    )
    await chat.ask(f"How many? {script}")
    for _ in range(2):
        await chat.finished()
        step = "<Searched the documents>"
        assert await chat.flow() == [before, step, family, step, "Done 🧭 1."]
        await chat.page.reload()


async def test_a_number_that_comes_in_pieces_never_flickers_and_unknown_ones_stay_text(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """What is painted only grows into what is stored; brackets that point to nothing are shown as written (T03, T04)."""
    pieces: list[Piece] = [
        event({"content": part}) for part in ("Six", " [", "1", "]", " and [9", "9] and a[0], [note]", ".")
    ]
    paced: list[Piece] = []
    gates = [asyncio.Event() for _ in pieces]
    for piece, gate in zip(pieces, gates, strict=True):
        paced += [piece, gate]
    await chat.ask(f"How many? {endpoint.script(SEARCH, stream(*paced, finish()))}")
    for gate, shown in zip(
        gates,
        ("Six", "Six [", "Six [1", "Six 1", "Six 1 and [9", "Six 1 and [99] and a[0], [note]", "[note]."),
        strict=True,
    ):
        await chat.says(shown)
        gate.set()
    await chat.finished()
    assert await chat.flow() == ["<Searched the documents>", "Six 1 and [99] and a[0], [note]."]
    await expect(chat.answer.locator("button.cite")).to_have_count(1)


async def test_separators_inside_the_text_end_no_frame(
    chat: Conversation, app: App, endpoint: ScriptedEndpoint
) -> None:
    """U+2028, U+0085, VT and FF are characters like others, in what is live and in what is read again (S15)."""
    odd = "x\u2028y\u0085z\u2029w\x0bv\x0cu [1]"
    await chat.ask(f"How odd? {endpoint.script(SEARCH, stream(event({'content': odd}), finish()))}")
    stored = ""
    for _ in range(2):
        await chat.finished()
        shown: str = await chat.answer.locator(".prose").evaluate("(prose) => prose.textContent")
        stored = (await app.messages(await chat.id()))[-1]["content"]
        assert shown.strip() == stored.replace("[1]", "1")
        await chat.page.reload()
    assert stored == odd


async def test_a_title_is_cut_between_characters(chat: Conversation, endpoint: ScriptedEndpoint) -> None:
    """A question's title ends inside a row of joined emoji: what is shown has whole characters only (T06)."""
    script = endpoint.script(SEARCH, text("Many [1]."))
    await chat.ask(f"{'x' * 70} {'👩‍🌾🇳🇴' * 9} {script}")
    await chat.finished()
    for place in (chat.page.get_by_role("heading", level=1), chat.page.locator(".list-title").first):
        await expect(place).to_contain_text("xxx")  # the list has it a moment after the answer
        title = await place.inner_text()
        assert re.fullmatch("x{70} (👩‍🌾|🇳🇴)+…?", title), title


async def test_right_to_left_text_reads_so_whatever_stands_in_it(
    chat: Conversation, app: App, endpoint: ScriptedEndpoint
) -> None:
    """Each block finds its own direction, code and numbers are set apart, and the order stays the logical one (T08)."""
    answer = f"{ARABIC}\n\n- {ARABIC}\n\n| {ARABIC} | x |\n| --- | --- |\n| {ARABIC} | Plain English. |\n"
    narrated = call(("search_chunks", {"query": "Altman"}), say="سأبحث في الوثائق أولا.")
    await chat.ask(f"ما هو الأمر؟ {endpoint.script(SEARCH, narrated, text(answer))}")
    await chat.finished()
    flow = await chat.flow()
    assert flow[:3] == ["<Searched the documents>", "سأبحث في الوثائق أولا.", "<Searched the documents>"]
    blocks = chat.answer.locator(".prose :is(p, li, td, th)")
    directions: list[list[str]] = await blocks.evaluate_all(
        "(all) => all.map((one) => [one.textContent, getComputedStyle(one).direction])"
    )
    written = ARABIC.replace("`", "").replace("[[1]]", "[1]")
    assert directions == [
        ["سأبحث في الوثائق أولا.", "rtl"],
        *([[written, "rtl"]] * 3), ["x", "ltr"], [written, "rtl"], ["Plain English.", "ltr"],
    ]  # fmt: skip
    set_apart: list[str] = await chat.answer.locator(".prose :is(code, .cite)").evaluate_all(
        "(all) => [...new Set(all.map((one) => getComputedStyle(one).unicodeBidi))]"
    )
    assert set_apart == ["isolate"]
    assert await chat.questions.locator("p").evaluate("(p) => getComputedStyle(p).direction") == "rtl"
    assert (await app.messages(await chat.id()))[-1]["content"].endswith(answer)


async def test_the_end_is_kept_in_view_only_while_the_reader_is_there(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """Scrolling up lets go, more text moves nothing, a button leads back and holds on again."""
    gates = [asyncio.Event() for _ in range(3)]
    many = event({"content": "".join(f"{n}. {PARAGRAPH}\n\n" for n in range(40))})
    pieces: list[Piece] = [many, gates[0], many, gates[1], many, gates[2], event({"content": "The end [1]."}), finish()]
    await chat.ask(f"Tell me all {endpoint.script(SEARCH, stream(*pieces))}")
    await expect(chat.answer.locator("li")).to_have_count(40)
    await _until_still(chat)
    assert await _left(chat) < 24
    gates[0].set()
    await expect(chat.answer.locator("li")).to_have_count(80)
    await _until_still(chat)
    assert await _left(chat) < 24
    await chat.thread.hover()
    await chat.page.mouse.wheel(0, -900)
    latest = chat.page.get_by_role("button", name="Go to the latest")
    await expect(latest).to_be_visible()
    await _until_still(chat)
    top = await chat.thread.evaluate("(one) => one.scrollTop")
    gates[1].set()
    await expect(chat.answer.locator("li")).to_have_count(120)
    assert await chat.thread.evaluate("(one) => one.scrollTop") == top
    await latest.click()
    await expect(latest).to_have_count(0)
    gates[2].set()
    await chat.finished()
    await _until_still(chat)
    assert await _left(chat) < 24


async def test_a_screen_reader_is_told_that_it_begins_and_ends_and_not_each_word(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """One polite region says two sentences; the growing text is in none."""
    await chat.page.evaluate("""() => {
        globalThis.said = [];
        new MutationObserver(() => {
          const now = [...document.querySelectorAll("[role=status]")].map((one) => one.textContent).join("");
          if (now !== "" && now !== said.at(-1)) said.push(now);
        }).observe(document.body, { childList: true, subtree: true, characterData: true });
    }""")
    await chat.ask(f"Tell me all {endpoint.script(SEARCH, text(PARAGRAPH * 30 + '[1]', size=9))}")
    await chat.finished()
    await expect(chat.page.get_by_role("status")).to_have_text("The answer is complete.")
    assert await chat.page.evaluate("said") == ["The answer has begun.", "The answer is complete."]
    alive = ":is([aria-live]:not([aria-live=off]), [role=log], [role=status], [role=alert], output)"
    assert await chat.page.locator(f"{alive}:has(.prose), {alive} .prose, .prose {alive}").count() == 0


async def test_nothing_moves_for_who_wants_it_so(somebody: Person, endpoint: ScriptedEndpoint) -> None:
    """`prefers-reduced-motion`: no animation runs while an answer is awaited; without it the dot breathes."""
    gate = asyncio.Event()
    running: dict[str, int] = {}
    wishes: tuple[Literal["no-preference", "reduce"], ...] = ("no-preference", "reduce")
    for wish in wishes:
        chat = Conversation(await somebody.open())
        await chat.page.emulate_media(reduced_motion=wish)
        await chat.ask(f"Wait {endpoint.script(SEARCH, stream(event({'content': 'Well'}), gate, finish()))}")
        await chat.says("Well")
        running[wish] = await chat.page.evaluate("document.getAnimations().length")
    gate.set()
    assert running["reduce"] == 0 < running["no-preference"]


@pytest.mark.parametrize(("part", "times"), [(BLOCKS, 4), (ONE_BLOCK, 15)], ids=["in many blocks", "in one block"])
async def test_a_hundred_thousand_characters_stay_smooth_and_arrive_whole(
    chat: Conversation, app: App, endpoint: ScriptedEndpoint, part: str, times: int
) -> None:
    """Drawn as they come, in frames: nothing holds the page for long, one can write meanwhile, and all of it is there.

    Four thousand deltas cost no more than a few times what drawing the stored answer does, in the page's own CPU time.
    """
    parts = [part.format(n=n) for n in range(130)]
    gates = [asyncio.Event() for _ in parts[::10]]
    pieces: list[Piece] = []
    for n, written in enumerate(parts):
        pieces += [event({"content": written[at : at + 25]}) for at in range(0, len(written), 25)]
        if n % 10 == 9:
            pieces.append(gates[n // 10])
    work = await _working(chat)
    script = endpoint.script(SEARCH, stream(*pieces, event({"content": "The end [1]."}), finish()))
    await chat.ask(f"Tell me all {script}")
    for n, gate in enumerate(gates, 1):
        await chat.says(f"Part {10 * n - 1}:")
        await chat.field.press("x")
        gate.set()
    await chat.says("The end 1.")
    await expect(chat.answer).to_have_attribute("aria-busy", "false")
    await expect(chat.field).to_have_value("x" * len(gates))
    tasks: list[float] = await chat.page.evaluate("longTasks")
    streamed = await work()
    assert max(tasks, default=0) < 1_000
    written = "".join(parts) + "The end [1]."
    assert len(written) > 100_000
    assert (await app.messages(await chat.id()))[-1]["content"] == written
    await expect(chat.answer.locator("button.cite")).to_have_count(131)
    shown: str = await chat.answer.evaluate("(answer) => answer.textContent")
    assert shown.count(PARAGRAPH.strip()) == 130 * 8
    await chat.page.reload()
    await chat.says("The end 1.")
    assert streamed < times * await work()


async def test_an_answer_is_drawn_once_a_frame_however_many_deltas_come_between(
    chat: Conversation, endpoint: ScriptedEndpoint
) -> None:
    """Changes of the answer are counted by what the browser tells of them, from frame to frame."""
    gates = [asyncio.Event() for _ in range(40)]
    pieces: list[Piece] = [event({"content": "Begun. "})]
    for n, gate in enumerate(gates):
        pieces += [gate, *(event({"content": f"{n}-{m} "}) for m in range(20))]
    end = asyncio.Event()  # the end itself is drawn at once
    script = endpoint.script(SEARCH, stream(*pieces, end, finish()))
    await chat.ask(f"Tell me all {script}")
    await chat.says("Begun.")
    await chat.answer.evaluate("""(answer) => {
        window.drawn = [0];
        new MutationObserver(() => { window.drawn[window.drawn.length - 1] += 1; })
            .observe(answer, { childList: true, subtree: true, characterData: true });
        const next = () => { window.drawn.push(0); requestAnimationFrame(next); };
        requestAnimationFrame(next);
    }""")
    for gate in gates:
        gate.set()
        await asyncio.sleep(0)  # each is written by itself: several arrive in one frame
    await chat.says("39-19 ")
    drawn: list[int] = await chat.page.evaluate("window.drawn")
    end.set()
    assert sum(drawn) > 0
    assert max(drawn) == 1


async def _working(chat: Conversation) -> Callable[[], Awaitable[float]]:
    """Tells how many seconds of CPU the page has spent on scripts, styles and layout since it was loaded."""
    profiler: Any = await chat.page.context.new_cdp_session(chat.page)
    await profiler.send("Performance.enable", {"timeDomain": "threadTicks"})

    async def spent() -> float:
        told = (await profiler.send("Performance.getMetrics"))["metrics"]
        parts = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
        return sum(float(one["value"]) for one in told if one["name"] in parts)

    return spent


async def _left(chat: Conversation) -> float:
    """How far the end is below what is seen, in pixels."""
    found: float = await chat.thread.evaluate("(one) => one.scrollHeight - one.clientHeight - one.scrollTop")
    return found


async def _until_still(chat: Conversation) -> None:
    """Two frames in which the scroller doesn't move."""
    await chat.thread.evaluate("""(one) => new Promise((resolve) => {
        let before = NaN;
        const look = () => {
          const now = `${one.scrollTop} ${one.scrollHeight}`;
          if (now === before) resolve();
          else { before = now; requestAnimationFrame(() => requestAnimationFrame(look)); }
        };
        look();
    })""")
