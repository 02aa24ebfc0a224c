"""What a chunk may hold beside tool calls. Family "deltas" of issue 3, cases P08, P09, D01."""

import json
from typing import Any

import pytest

from app.llm.failures import Interrupted
from app.llm.model import Finish, Reasoning, Usage
from app.llm.openai_chat import OpenAIChat
from tests.harness.scripted_endpoint import DONE, ScriptedEndpoint, event, finish, stream, usage
from tests.unit.llm.reading import Case, Outcome, ask, broken, cut_at, read, read_turn, without_origin

END = event({}, "stop") + DONE


def raw(delta: str) -> bytes:
    """A chunk whose delta is this JSON text, as it stands: for escapes that no encoder would write."""
    return b'data: {"choices":[{"index":0,"delta":' + delta.encode() + b"}]}\n\n"


def text(*contents: object) -> bytes:
    """A stream of these contents, one a chunk."""
    return b"".join(event({"content": content}) for content in contents) + END


def chunk(body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


MIRRORED = {"reasoning": "R", "reasoning_content": "R", "reasoning_details": [{"type": "reasoning.text", "text": "R"}]}
PARTS = [{"type": "text", "text": "Hel"}, "l", {"type": "output_text", "text": "o"}, {"type": "image_url"}, 7]
THINKING_PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}]

CASES = [
    Case(
        "empty-choices-and-no-delta-P08A",
        chunk({"choices": [], "prompt_filter_results": [{}]})
        + event({"content": "Hel"})
        + event({"content": "lo"})
        + chunk({"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]})
        + chunk({"choices": [], "usage": {"total_tokens": 9}})
        + DONE,
        Outcome("Hello", finish=None),
    ),
    Case("usage-only", text("Hi").removesuffix(DONE) + usage(3, 4) + DONE, Outcome("Hi", usage=Usage(3, 4))),
    Case(
        "usage-with-details",
        text("Hi").removesuffix(DONE)
        + usage(9, 8, prompt_tokens_details={"cached_tokens": 5}, completion_tokens_details={"reasoning_tokens": 6})
        + DONE,
        Outcome("Hi", usage=Usage(9, 8, 5, 6)),
    ),
    Case(
        "usage-of-deepseek",
        text("Hi").removesuffix(DONE) + usage(9, 8, prompt_cache_hit_tokens=4) + DONE,
        Outcome("Hi", usage=Usage(9, 8, 4)),
    ),
    Case(
        "usage-in-every-chunk",
        b"".join(event({"content": c}, usage={"prompt_tokens": 2, "completion_tokens": n}) for n, c in enumerate("ab"))
        + END,
        Outcome("ab", usage=Usage(2, 1)),
    ),
    Case(
        "usage-in-the-choice",
        event({"content": "Hi"})
        + chunk({"choices": [{"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 2}}]})
        + DONE,
        Outcome("Hi", usage=Usage(2)),
    ),
    Case("usage-of-odd-types", chunk({"choices": [], "usage": {"prompt_tokens": "many"}}) + END, Outcome()),
    Case("usage-null", event({"content": "Hi"}, usage=None) + END, Outcome("Hi")),
    Case("content-null", text(None, "Hi", None), Outcome("Hi")),
    Case("content-empty", text("", "Hi", ""), Outcome("Hi")),
    Case("content-parts", text(PARTS), Outcome("Hello")),
    Case("content-thinking-parts", text(THINKING_PARTS), Outcome("Hi", "hm")),
    Case("content-one-part", text({"type": "text", "text": "Hi"}), Outcome("Hi")),
    Case("content-number", text(4, 2), Outcome("42")),
    Case("role-only", event({"role": "assistant", "content": None}) + text("Hi"), Outcome("Hi")),
    Case("delta-null", chunk({"choices": [{"index": 0, "delta": None}]}) + text("Hi"), Outcome("Hi")),
    Case("choices-null", chunk({"choices": None}) + text("Hi"), Outcome("Hi")),
    Case("choices-an-object", chunk({"choices": {"delta": {"content": "Hi"}, "finish_reason": "stop"}}), Outcome("Hi")),
    Case("index-as-text", chunk({"choices": [{"index": "0", "delta": {"content": "Hi"}}]}) + END, Outcome("Hi")),
    Case("another-choice", chunk({"choices": [{"index": 1, "delta": {"content": "No"}}]}) + text("Hi"), Outcome("Hi")),
    Case("refusal-is-text", event({"refusal": "I can't."}) + END, Outcome("I can't.")),
    Case(
        "odd-types-everywhere",
        chunk({"choices": [7, {"index": [], "delta": {"content": "Hi", "tool_calls": 3, "reasoning": 4}}], "usage": []})
        + END,
        Outcome("Hi"),
    ),
    Case("reasoning-content", event({"reasoning_content": "R1"}) + text("42"), Outcome("42", "R1")),
    Case("reasoning", event({"reasoning": "R1"}) + text("42"), Outcome("42", "R1")),
    Case("reasoning-mirrored-P09B", event(MIRRORED) + text("42"), Outcome("42", "R")),
    Case("reasoning-beside-text", event({"reasoning_content": "R", "content": "4"}) + text("2"), Outcome("42", "R")),
    Case("reasoning-null", event({"reasoning_content": None, "reasoning": ""}) + text("42"), Outcome("42")),
    Case(
        "think-tag-split-P09A",
        text("<thi", "nk>private note</thi", "nk>Total: 3 < 5"),
        Outcome("Total: 3 < 5", "private note"),
    ),
    Case("think-tag-whole", text("<think>\nhm\n</think>\n\nHi"), Outcome("Hi", "\nhm\n")),
    Case("thinking-tag", text("\n<thinking>hm</thinking> Hi"), Outcome("Hi", "hm")),
    Case("lone-closer-P09C", text("</think>", "\n\nHi"), Outcome("Hi")),
    Case("unfinished-tag-P09D", text("x <thi"), Outcome("x <thi")),
    Case("unfinished-tag-at-the-start-P09D", text("<thi"), Outcome("<thi")),
    Case("tag-in-the-middle-is-text", text("a <think>b</think> c"), Outcome("a <think>b</think> c")),
    Case("think-without-end", text("<think>hm"), Outcome("", "hm")),
    Case("think-cut-off", text("<think>hm").removesuffix(END), broken("", Interrupted, thought="hm")),
    Case("nul-D01", raw('{"content":"a\\u0000b"}') + END, Outcome("ab")),
    Case("nul-within-a-tag-D01", raw('{"content":"<th\\u0000ink>x</think>y"}') + END, Outcome("y", "x")),
    Case("lone-surrogate-D01", raw('{"content":"a\\ud83d b"}') + END, Outcome("a\ufffd b")),
    Case("lone-low-surrogate-D01", raw('{"content":"a\\ude00b"}') + END, Outcome("a\ufffdb")),
    Case("lone-surrogate-last-D01", raw('{"content":"a\\ud83d"}') + END, Outcome("a\ufffd")),
    Case("escaped-pair", raw('{"content":"\\ud83d\\ude42"}') + END, Outcome("🙂")),
    Case("pair-over-two-deltas", raw('{"content":"a\\ud83d"}') + raw('{"content":"\\ude42b"}') + END, Outcome("a🙂b")),
    Case(
        "reasoning-pair-over-two-deltas",
        raw('{"reasoning":"\\ud83d"}') + raw('{"reasoning":"\\ude42"}') + text("Hi"),
        Outcome("Hi", "🙂"),
    ),
    Case("invalid-utf-8", event({"content": "a?b"}).replace(b"?", b"\xff") + END, Outcome("a\ufffdb")),
    Case("raw-control-character", event({"content": "a?b"}).replace(b"?", b"\x07") + END, Outcome("a\x07b")),
    Case("nan", b'data: {"created":NaN,"choices":[{"delta":{"content":"Hi"}}]}\n\n' + END, Outcome("Hi")),
    Case("deep-nesting-is-junk", b"data: " + b"[" * 3000 + b"\n\n" + text("Hi"), Outcome("Hi")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_every_shape_of_a_delta_gives_its_text_and_nothing_else(
    case: Case, endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Over a real connection (P08, P09, D01)."""
    answer = await ask(model, endpoint.script(stream(case.data)))
    assert answer.outcome == case.expected


@pytest.mark.parametrize("case", [c for c in CASES if len(c.data) < 2000], ids=lambda case: case.id)
def test_every_shape_of_a_delta_is_the_same_however_its_bytes_arrive(case: Case) -> None:
    """Each single cut of the bytes (P08, P09, D01)."""
    for place in range(len(case.data)):
        assert read(cut_at(case.data, [place])) == case.expected, place


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([{"reasoning_content": "R"}, {"reasoning_content": "1"}], Reasoning("reasoning_content", "R1", "")),
        ([{"reasoning": "R1"}], Reasoning("reasoning", "R1", "")),
        ([MIRRORED], Reasoning("reasoning_content", "R", "")),
        ([{"reasoning_details": [{"type": "reasoning.text", "text": "R1"}]}], Reasoning("reasoning", "R1", "")),
        ([{"content": "<think>R1</think>"}], Reasoning("content", "R1", "")),
        ([{"content": "Hi"}], None),
    ],
)
def test_reasoning_is_kept_once_with_the_field_it_came_in(
    pieces: list[dict[str, object]], expected: Reasoning | None
) -> None:
    """So that its endpoint can have it back (A11), and no gateway's mirror doubles it (P09)."""
    data = b"".join(event(piece) for piece in pieces)
    _, turn = read_turn([data + END])
    assert turn is not None
    assert without_origin(turn.reasoning) == (None if expected is None else without_origin(expected))


async def test_reasoning_names_the_endpoint_and_model_it_belongs_to(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Its origin is the model's, so that nobody else is sent it (A11)."""
    answer = await ask(model, endpoint.script(stream(event({"reasoning_content": "R1"}), text("Hi"))))
    assert answer.turn is not None
    assert answer.turn.reasoning == Reasoning("reasoning_content", "R1", model.origin)


async def test_a_long_answer_is_read_whole(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """100,000 characters in 25,000 events."""
    words = "".join(f"第{n}句 sentence {n} 🙂. " for n in range(5_000))[:100_000]
    pieces = [event({"content": words[i : i + 4]}) for i in range(0, len(words), 4)]
    answer = await ask(model, endpoint.script(stream(b"".join(pieces), finish())))
    assert answer.outcome == Outcome(words, finish=Finish.STOP, usage=Usage(11, 7))
