"""A turn's frames as OpenAI's chunks, where a server over HTTP can't be made to do it. Source: decision 0018."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.api.completions_frames import Chunks, Names
from app.errors import RefusalCode
from app.live.frames import Conversation, Delta, Done, Failed, Frame, Snapshot, TurnUsage, encode
from tests.harness.sse_reader import StreamReader

NAMES = Names("t", "c", "q", "m", ())
DONE = Done("a", stopped=False, evidence="none", cited=(), usage=TurnUsage())
START = Conversation("c", "t", "q", "")


def chunks_of(*frames: Frame, include_usage: bool = False) -> list[Any]:
    """What a client gets for these frames, each read by itself: the data of every event, and "[DONE]"."""
    chunks = Chunks(NAMES, include_usage=include_usage)
    wire = b"".join(chunks.take(encode(frame, b"t:%d" % n)) for n, frame in enumerate(frames, 1))
    *events, rest = wire.split(b"\n\n")
    assert rest == b""
    data = [event.removeprefix(b"data: ") for event in events]
    return ["[DONE]" if piece == b"[DONE]" else json.loads(piece) for piece in data]


def text(chunks: list[Any]) -> str:
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c.get("choices"))


def snapshot(content: str) -> Snapshot:
    return Snapshot("t", content, (), ())


def test_text_that_was_sent_is_not_sent_again_after_a_take_over() -> None:
    """A snapshot that goes back is caught up with in silence as long as it says the same (decision 0015)."""
    got = chunks_of(START, Delta(0, "Four members"), snapshot("Four"), Delta(4, " mem"), Delta(8, "bers left"), DONE)
    assert text(got[:-1]) == "Four members left"
    assert got[-2]["choices"][0]["finish_reason"] == "stop"
    assert got[-1] == "[DONE]"


def test_a_lagging_reader_gets_the_rest_of_a_snapshot() -> None:
    """One that goes on from what was sent adds what is new (case S13)."""
    assert text(chunks_of(START, Delta(0, "Four"), snapshot("Four members"), DONE)[:-1]) == "Four members"


def test_an_answer_that_takes_back_what_was_sent_ends_with_an_error() -> None:
    """Other text, or less of it: no finish, no [DONE], and nothing after the error."""
    for frames in (
        (snapshot("Five"), DONE),
        (snapshot("Fo"), Delta(2, "x"), DONE),
        (snapshot("Fo"), DONE),
        (snapshot(""), Delta(0, "Four members"), Delta(12, "x")),
    ):
        *before, last = chunks_of(START, Delta(0, "Four members remained"), *frames)
        assert text(before) == "Four members remained"
        assert {chunk["choices"][0]["finish_reason"] for chunk in before} == {None}
        assert last["error"]["code"] == "turn_interrupted"


def test_usage_that_no_provider_gave_is_null() -> None:
    """Nothing is invented; with it asked for, every chunk has the field."""
    got = chunks_of(START, Delta(0, "x"), DONE, include_usage=True)
    assert [chunk["usage"] for chunk in got[:-1]] == [None] * (len(got) - 1)
    assert got[-2]["choices"] == []


def test_an_error_event_has_the_codes_kind() -> None:
    """Turn codes by their status, refusals that end a stream as the server's."""
    (error,) = chunks_of(Failed("model_rate_limited", "busy", retryable=True))[1:]
    assert error["error"] == {
        "message": "busy",
        "type": "rate_limit_error",
        "code": "model_rate_limited",
        "param": None,
    }
    ended = Chunks(NAMES, include_usage=False).fail(RefusalCode.DRAINING, "bye")
    assert StreamReader().feed(ended)[0].data["error"]["type"] == "server_error"


@given(st.text(max_size=30), st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=8))
def test_whatever_replaces_what_the_text_is_the_stored_one(answer: str, cuts: list[tuple[bool, int]]) -> None:
    """For any mix of deltas and snapshots of one answer the client ends with exactly it."""
    frames: list[Frame] = [START]
    at = 0
    for back, size in cuts:
        if back:
            at = min(size, at)
            frames.append(snapshot(answer[:at]))
        else:
            frames.append(Delta(at, answer[at : at + size]))
            at = min(at + size, len(answer))
    got = chunks_of(*frames, Delta(at, answer[at:]), DONE)
    assert got[-1] == "[DONE]"
    assert text(got[:-1]) == answer
