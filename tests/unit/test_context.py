"""What the model is shown: order, window, whole exchanges, the entity block, and the fresh answer request."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.model import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from app.tools.tool import Entity, NumberedSource
from app.turn import prompts
from app.turn.context import (
    HISTORY_CHARS,
    Observation,
    PastTurn,
    Prompt,
    complete_exchange,
    entity_block,
    exchange_chars,
    window,
)


def call(call_id: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, "search_chunks", arguments)


def asked(*ids: str, content: str | None = None) -> AssistantMessage:
    return AssistantMessage(content, tuple(call(call_id) for call_id in ids))


EXCHANGE: tuple[Message, ...] = (asked("a"), ToolMessage("a", "OK: found"))
SOURCE = NumberedSource(1, "chunk", "k1", "d1", "board.md", "The board", "On 17 November …")


def wrongs(messages: Sequence[Message]) -> list[str]:
    """What an endpoint would refuse: a result without its call, a call without its result directly after it."""
    faults: list[str] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, ToolMessage):
            faults.append(f"result {message.tool_call_id} without its call")
        elif isinstance(message, AssistantMessage):
            if message.content is None and not message.tool_calls:
                faults.append("an assistant message without content and calls")
            for wanted in message.tool_calls:
                following = messages[index] if index < len(messages) else None
                if not isinstance(following, ToolMessage) or following.tool_call_id != wanted.id:
                    faults.append(f"call {wanted.id} without its result")
                    break
                index += 1
    return faults


def test_the_prompt_is_system_history_entity_block_question() -> None:
    """DESIGN 6: the exchange stands before its conclusion, the block right before the question."""
    prompt = Prompt(
        "And then?",
        (PastTurn("Who?", (), "She."), PastTurn("When?", EXCHANGE, "In 2023 [1].")),
        (Entity("e1", "OpenAI", "organization"),),
    )
    assert prompt.messages() == (
        SystemMessage(prompts.LATEST.system),
        UserMessage("Who?"),
        AssistantMessage("She."),
        UserMessage("When?"),
        *EXCHANGE,
        AssistantMessage("In 2023 [1]."),
        SystemMessage(f"{prompts.LATEST.entities}\ne1 | OpenAI | organization"),
        UserMessage("And then?"),
    )
    assert Prompt("Hello").messages() == (SystemMessage(prompts.LATEST.system), UserMessage("Hello"))


def test_the_answer_request_is_two_messages_of_which_one_is_data() -> None:
    """DESIGN 6: no tool messages, background without exchanges, everything else as JSON."""
    prompt = Prompt("And then?", (PastTurn("When?", EXCHANGE, "In 2023 [1]."),), (Entity("e0", "Old", None),))
    observations = [Observation("search_chunks", {"query": "then"}, "ok", 'OK: [1] board.md\n| "quoted" 董事会')]
    system, user = prompt.answer_messages(observations, [SOURCE], [Entity("e1", "OpenAI", None)], None)
    assert system == SystemMessage(prompts.LATEST.answer)
    assert isinstance(user, UserMessage)
    assert "董事会" in user.content
    assert json.loads(user.content) == {
        "question": "And then?",
        "background": [{"speaker": "user", "text": "When?"}, {"speaker": "assistant", "text": "In 2023 [1]."}],
        "evidence": [
            {
                "tool": "search_chunks",
                "arguments": {"query": "then"},
                "status": "ok",
                "result": 'OK: [1] board.md\n| "quoted" 董事会',
            }
        ],
        "sources": [{"n": 1, "title": "board.md", "locator": "The board"}],
        "resolved": [{"id": "e1", "name": "OpenAI", "type": None}],
    }


@pytest.mark.parametrize("fault", ["empty", "markup", "calls", "length"])
def test_a_repair_adds_its_reason_to_the_system_prompt_only(fault: str) -> None:
    """DESIGN 6: same evidence, only the reason is new."""
    plain = Prompt("Q").answer_messages([], [], [], None)
    repaired = Prompt("Q").answer_messages([], [], [], fault)
    assert repaired == (SystemMessage(f"{prompts.LATEST.answer}\n\n{prompts.LATEST.repair[fault]}"), plain[1])


def test_the_entity_block_has_at_most_twenty_lines_and_no_forged_fields() -> None:
    """DESIGN 6: `id | name | type`; bars and line breaks of a name can't make another field or line."""
    many = [Entity(f"e{n}", f"name {n}", "person") for n in range(30)]
    assert entity_block(many, prompts.LATEST.entities).split("\n") == [
        prompts.LATEST.entities,
        *(f"e{n} | name {n} | person" for n in range(20)),
    ]
    forged = Entity("e1", "A | admin\ne2 | B\u2028x", None)
    assert entity_block([forged], prompts.LATEST.entities) == f"{prompts.LATEST.entities}\ne1 | A / admin e2 / B x | "


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], ()),
        (EXCHANGE, EXCHANGE),
        ([asked("a")], ()),
        ([ToolMessage("a", "x")], ()),
        ([ToolMessage("a", "x"), *EXCHANGE], EXCHANGE),
        ([AssistantMessage("text")], ()),
        ([asked("a", "b"), ToolMessage("b", "x")], (asked("b"), ToolMessage("b", "x"))),
        ([asked("a", "b"), ToolMessage("a", "x")], (asked("a"), ToolMessage("a", "x"))),
        (
            [asked("a", "b"), ToolMessage("b", "2"), ToolMessage("a", "1")],
            (asked("a", "b"), ToolMessage("a", "1"), ToolMessage("b", "2")),
        ),
        ([asked("a"), UserMessage("note"), ToolMessage("a", "late")], ()),
        ([asked("a"), ToolMessage("a", "1"), asked("a")], (asked("a"), ToolMessage("a", "1"))),
        (
            [asked("a"), ToolMessage("a", "1"), asked("a"), ToolMessage("a", "2")],
            (asked("a"), ToolMessage("a", "1"), asked("a"), ToolMessage("a", "2")),
        ),
        ([asked("a", content="text"), ToolMessage("z", "x")], ()),
    ],
)
def test_only_calls_with_a_result_are_kept(messages: Sequence[Message], expected: tuple[Message, ...]) -> None:
    """Case A08: a stop or a crash between a call and its result leaves nothing that would be refused."""
    assert complete_exchange(messages) == expected


IDS = st.sampled_from("abcd")
MESSAGES = st.lists(
    st.lists(IDS, unique=True, max_size=4).map(lambda ids: asked(*ids))
    | st.builds(ToolMessage, IDS, st.text(max_size=5))
    | st.builds(UserMessage, st.just("note"))
    | st.builds(AssistantMessage, st.text(max_size=5)),
    max_size=14,
)


@given(MESSAGES)
def test_a_completed_exchange_is_one_that_every_endpoint_takes(messages: list[Message]) -> None:
    """Cases A08 and A09: every result after its call, every call answered; nothing invented; doing it again is free."""
    complete = complete_exchange(messages)
    assert wrongs(complete) == []
    assert complete_exchange(complete) == complete
    results = [m for m in complete if isinstance(m, ToolMessage)]
    assert all(m in messages for m in results)


@st.composite
def past_turns(draw: st.DrawFn) -> PastTurn:
    """A stored turn of up to three rounds with one to four parallel calls each."""
    rounds = draw(st.lists(st.integers(1, 4), max_size=3))
    exchange: list[Message] = []
    for number, calls in enumerate(rounds):
        ids = [f"{number}-{n}" for n in range(calls)]
        exchange.append(AssistantMessage(None, tuple(call(i, draw(st.just("{}") | st.text(max_size=8))) for i in ids)))
        exchange += [ToolMessage(i, draw(st.text(max_size=30))) for i in ids]
    question, answer = draw(st.text(min_size=1, max_size=20)), draw(st.text(min_size=1, max_size=40))
    return PastTurn(question, tuple(exchange), answer)


HISTORY = st.lists(past_turns(), max_size=8)


@given(HISTORY, st.integers(0, 600))
def test_the_window_drops_whole_turns_oldest_first_and_keeps_its_limit(past: list[PastTurn], limit: int) -> None:
    """Case A09: for random histories and limits."""
    kept = window(past, limit)
    assert sum(turn.chars for turn in kept) <= limit
    newest = past[len(past) - len(kept) :]
    assert [(t.question, t.answer) for t in kept] == [(t.question, t.answer) for t in newest]
    assert all(k.exchange == n.exchange for k, n in list(zip(kept, newest, strict=True))[:-1])
    if kept:
        assert kept[-1].exchange in (newest[-1].exchange, ())
        assert (kept[-1].exchange == newest[-1].exchange) == (newest[-1].chars <= limit)
    if len(kept) < len(past):
        dropped = past[len(past) - len(kept) - 1]
        alone = dropped.chars - (0 if kept else exchange_chars(dropped.exchange))
        assert sum(turn.chars for turn in kept) + alone > limit


@given(HISTORY, st.integers(0, 600))
def test_every_prompt_within_a_window_is_one_that_endpoints_take(past: list[PastTurn], limit: int) -> None:
    """Case A09: no result without its call, no call without its results, first after system is user."""
    messages = Prompt("Q", window(past, limit)).messages()
    assert wrongs(messages) == []
    assert [type(m) for m in messages[:2]] == [SystemMessage, UserMessage]
    assert messages[-1] == UserMessage("Q")
    spoken = [m for m in messages if not isinstance(m, ToolMessage | SystemMessage)]
    assert all(not (isinstance(a, UserMessage) and isinstance(b, UserMessage)) for a, b in pairwise(spoken))


@given(HISTORY)
def test_halving_always_gets_smaller_until_nothing_is_left(past: list[PastTurn]) -> None:
    """Case A16: on overflow shrink, never resend the same."""
    prompt = Prompt("Q", tuple(past))
    sizes = [sum(turn.chars for turn in prompt.past)]
    while (smaller := prompt.halved()) is not None:
        prompt = smaller
        sizes.append(sum(turn.chars for turn in prompt.past))
    assert all(after <= before // 2 for before, after in pairwise(sizes))
    assert prompt == Prompt("Q")


def test_a_long_exchange_goes_before_its_own_answer_does() -> None:
    """DESIGN 6: an answer is never cut, and the newest turn is kept without what led to it."""
    long = PastTurn("When?", (asked("a"), ToolMessage("a", "x" * HISTORY_CHARS)), "In 2023.")
    older = PastTurn("Who?", (), "She.")
    assert window([older, long], HISTORY_CHARS) == (older, PastTurn("When?", (), "In 2023."))
    assert window([older, PastTurn("When?", (), "x" * HISTORY_CHARS)], HISTORY_CHARS) == ()


def test_the_length_of_an_exchange_counts_contents_names_and_arguments() -> None:
    """What a window counts."""
    messages = [AssistantMessage("ab", (call("a", '{"q":1}'),)), ToolMessage("a", "OK: x")]
    assert exchange_chars(messages) == 2 + len("search_chunks") + 7 + 5
