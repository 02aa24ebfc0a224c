"""Whatever bytes come: a turn or a typed failure, and nothing left behind. Cases P01, P06, P13."""

import asyncio
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.capabilities import Capabilities
from app.llm.failures import ModelFailure
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from tests.harness.scripted_endpoint import DONE, Reply, ScriptedEndpoint, event, finish
from tests.unit.llm.reading import ask, cut_at, read, wire_tasks

ARGUMENTS = json.dumps({"name": "鼓楼 🙂", "as_of": "2023-11"}, ensure_ascii=False)
STREAM = b"".join(
    [
        b": hello\r\n\r\n",
        event({"role": "assistant", "content": None}),
        event({"reasoning_content": "let me 想"}),
        event({"content": "<think>not"}),
        event({"content": " shown</think>鹭🙂"}),
        event({"content": "𩸽 text\u2028"}),
        event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "find_ent", "arguments": ""}}]}),
        event({"tool_calls": [{"index": 0, "function": {"name": "ities", "arguments": ARGUMENTS[:9]}}]}),
        event({"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": ARGUMENTS[9:]}}]}),
        event({"tool_calls": [{"index": 1, "id": "a", "function": {"name": "timeline", "arguments": {"id": 7}}}]}),
        finish("tool_calls"),
    ]
)
WHOLE = read([STREAM])
JUNK = [
    b"data: {not json\n\n",
    b"data: \n\n",
    b"\x00\xff\xfe",
    b"\r",
    b"\n\n",
    b"data: [1,2]\n\n",
    b"data: null\n\n",
    b"id: x\n",
    b'data: {"choices":7}\n\n',
    b'data: {"choices":[{"delta":"x"}]}\n\n',
    b"data: 1e999\n\n",
    b"<html>",
    b"data: {}\n\n",
]


def test_the_stream_that_is_cut_up_is_read_whole() -> None:
    """What the properties below compare with."""
    assert WHOLE.text == "鹭🙂𩸽 text\u2028"
    assert WHOLE.thought == "let me 想not shown"
    assert WHOLE.calls == (("find_entities", ARGUMENTS), ("timeline", '{"id": 7}'))


@given(places=st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_splitting_of_the_bytes_gives_the_same_deltas_and_calls(places: list[int]) -> None:
    """Joined deltas, thoughts, calls, usage: all the same (P01, P13)."""
    assert read(cut_at(STREAM, places)) == WHOLE


def test_every_byte_in_a_read_of_its_own_gives_the_same() -> None:
    """The finest splitting there is (P13)."""
    assert read([STREAM[i : i + 1] for i in range(len(STREAM))]) == WHOLE


@given(
    places=st.lists(st.tuples(st.integers(0, len(STREAM)), st.sampled_from(JUNK)), max_size=6),
    end=st.integers(0, len(STREAM)),
)
def test_junk_and_truncation_never_raise_anything_but_a_typed_failure(
    places: list[tuple[int, bytes]], end: int
) -> None:
    """`read` catches ModelFailure only (P06)."""
    data = STREAM[:end]
    for place, junk in sorted(places, reverse=True):
        data = data[:place] + junk + data[place:]
    outcome = read(cut_at(data, [place for place, _ in places]))
    assert outcome.failure is None or issubclass(outcome.failure, ModelFailure)


@given(end=st.integers(0, len(STREAM)))
def test_a_truncated_stream_is_a_beginning_of_the_whole(end: int) -> None:
    """Text before the cut is the text of the whole up to there; calls come only with a complete reply (P06)."""
    outcome = read([STREAM[:end]])
    assert WHOLE.text.startswith(outcome.text)
    assert WHOLE.thought.startswith(outcome.thought)
    assert outcome.calls in ((), WHOLE.calls)
    assert (outcome.failure is None) == (outcome.finish is not None)


FIELDS = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "index",
    "error",
    "usage",
    "finish_reason",
    "type",
    "text",
    "reasoning",
    "reasoning_content",
    "function_call",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=24,
)


@given(values=st.lists(JSON, max_size=4), deltas=st.lists(JSON, max_size=4))
def test_any_json_whatever_is_read_without_a_crash(values: list[object], deltas: list[object]) -> None:
    """Objects of every shape where chunks and deltas are expected."""
    chunks = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    inner = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [b"data: " + json.dumps(value).encode() + b"\n\n" for value in inner]
    outcome = read([b"".join(chunks) + DONE])
    assert outcome.failure is None or issubclass(outcome.failure, ModelFailure)


def damaged(rng: random.Random) -> Reply:
    """A reply that differs from the stream above in some way: cut, with junk, in odd pieces, with an odd end."""
    data = STREAM[: rng.choice([len(STREAM), rng.randrange(len(STREAM))])]
    for _ in range(rng.randrange(3)):
        place = rng.randrange(len(data) + 1)
        data = data[:place] + rng.choice(JUNK) + data[place:]
    pieces = cut_at(data, [rng.randrange(len(data) + 1) for _ in range(rng.randrange(12))])
    kind = rng.choice(["text/event-stream", "text/event-stream", "application/json", "text/html", "x"])
    return Reply(
        pieces,
        status=rng.choice([200, 200, 200, 200, 400, 429, 500, 302]),
        headers={"content-type": kind},
        close=rng.choice(["clean", "clean", "cut", "reset"]),
        framing=rng.choice(["chunked", "close"]),
    )


@pytest.mark.parametrize("seed", range(4))
async def test_damaged_replies_over_the_wire_leave_no_task_and_no_connection(seed: int, no_proxy: None) -> None:
    """100 replies a seed, 20 at once: each a turn or a typed failure; then every connection and task is gone."""
    rng = random.Random(seed)
    before = wire_tasks()
    async with ScriptedEndpoint() as endpoint:
        model = OpenAIChat(EndpointConfig(base_url=endpoint.base_url, model="m"), Capabilities())
        for _ in range(5):
            replies = [damaged(rng) for _ in range(20)]
            answers = await asyncio.gather(*(ask(model, endpoint.script(reply)) for reply in replies))
            for reply, answer in zip(replies, answers, strict=True):
                assert (answer.turn is None) != (answer.failure is None), reply
        await model.aclose()
        await endpoint.settled()
    assert not wire_tasks() - before
