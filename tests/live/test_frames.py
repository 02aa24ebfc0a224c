"""The bytes of each frame, and a finished turn's replay."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import TurnErrorCode
from app.live.frames import (
    HEARTBEAT,
    IDLE,
    Conversation,
    Delta,
    Done,
    Failed,
    Frame,
    NotAFrame,
    Snapshot,
    Sources,
    TurnUsage,
    decode,
    encode,
)
from app.live.log import Stored
from app.live.replay import Replay
from tests.harness.sse_reader import StreamReader
from tests.live.tabs import DONE, source, step

STEP = (
    '{"n":1,"at":0,"call_id":"c1","tool":"search_chunks","kind":"search","label":"query","detail":"1 passage",'
    '"status":"ok","ms":3}'
)
USAGE = TurnUsage(1, 2, None, None, 2, truncated=True)
USAGE_JSON = (
    '{"prompt_tokens":1,"completion_tokens":2,"reasoning_tokens":null,"cached_tokens":null,"requests":2,'
    '"truncated":true}'
)
SOURCE = (
    '{"n":1,"kind":"chunk","id":"k1","document_id":null,"title":"board.md","locator":"The board",'
    '"excerpt":"On 17 November …"}'
)


@pytest.mark.parametrize(
    ("frame", "event", "data"),
    [
        (
            Conversation("c", "t", "m", "Wer?"),
            "conversation",
            '{"id":"c","turn_id":"t","message_id":"m","title":"Wer?"}',
        ),
        (step(1, 0), "step", STEP),
        (Sources((source(1),)), "sources", f"[{SOURCE}]"),
        (Sources(()), "sources", "[]"),
        (Delta(3, "a\r\nb\u2028🦀"), "delta", '{"at":3,"text":"a\\r\\nb\u2028🦀"}'),
        (
            Done("m", stopped=True, evidence="cited", cited=(1, 3), usage=USAGE),
            "done",
            f'{{"message_id":"m","stopped":true,"evidence":"cited","cited":[1,3],"usage":{USAGE_JSON}}}',
        ),
        (
            Failed(TurnErrorCode.ANSWER_EMPTY, "Nothing.", retryable=True),
            "error",
            '{"code":"answer_empty","message":"Nothing.","retryable":true}',
        ),
        (
            Snapshot("t", "x", (step(1, 0),), (source(1),)),
            "snapshot",
            f'{{"turn_id":"t","content":"x","steps":[{STEP}],"sources":[{SOURCE}]}}',
        ),
    ],
)
def test_a_frame_is_an_id_an_event_and_one_line_of_json(frame: Frame, event: str, data: str) -> None:
    """DESIGN 5: the fields of every frame, to the byte."""
    assert encode(frame, b"t1:7") == f"id: t1:7\nevent: {event}\ndata: {data}\n\n".encode()


@given(st.text())
def test_no_text_breaks_a_frame(text: str) -> None:
    """Whatever a model writes stays in its one line of data."""
    (frame,) = StreamReader().feed(encode(Delta(0, text), b"t1:1"))
    assert (frame.event, frame.id, frame.data) == ("delta", "t1:1", {"at": 0, "text": text})


def test_idle_and_heartbeats_carry_no_id() -> None:
    """Case S10: a reader keeps the last id it saw."""
    reader = StreamReader()
    assert [(f.event, f.data, f.id) for f in reader.feed(HEARTBEAT + IDLE)] == [("idle", {}, "")]
    assert reader.comments == ["keep-alive"]


async def test_a_replay_gives_a_snapshot_and_the_terminal_frame_once() -> None:
    """Case S09: a request that comes back long after its turn ended."""
    replay = Replay(Stored(Snapshot("t1", "Two people.", (), ()), DONE, 12))
    assert not replay.finished
    data = await replay.read(0)
    assert data is not None
    frames = StreamReader().feed(data)
    assert [(f.event, f.id) for f in frames] == [("snapshot", "t1:11"), ("done", "t1:12")]
    assert frames[0].data == {"turn_id": "t1", "content": "Two people.", "steps": [], "sources": []}
    assert frames[1].data == json.loads(encode(DONE, b"").split(b"data: ")[1])
    assert (await replay.read(0), replay.finished) == (None, True)


async def test_a_closed_replay_gives_nothing() -> None:
    """A tab that left before it read."""
    replay = Replay(Stored(Snapshot("t1", "", (), ()), DONE, 0))
    replay.close()
    replay.close()
    assert await replay.read(0) is None


@pytest.mark.parametrize(
    "frame",
    [
        Conversation("c1", "t1", "m0", "Who?"),
        step(1, 0),
        Sources((source(1), source(2))),
        Sources(()),
        Delta(3, "data: \n\nevent: \u2028 🦀"),
        DONE,
        Failed(TurnErrorCode.INTERNAL, "x", retryable=True),
        Snapshot("t1", "Two people.", (step(1, 0),), (source(1),)),
    ],
)
def test_a_process_that_is_sent_a_frames_bytes_knows_the_frame(frame: Frame) -> None:
    """A mirror of another process's turn holds the same state."""
    assert decode(encode(frame, b"t1:7")) == frame


@pytest.mark.parametrize("data", [b"", b"id: t1:1\nevent: dance\ndata: {}\n\n", b"id: t1:1\nevent: delta\ndata: 7\n\n"])
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    """A newer process may know more."""
    with pytest.raises(NotAFrame):
        decode(data)
