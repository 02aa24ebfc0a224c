"""How the bytes of an event stream may be laid out. Family "framing" of issue 3, cases P11, P13, S15."""

import gzip
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app.llm.event_stream as event_stream_module
from app.llm.event_stream import EventStream, EventTooLarge
from app.llm.model import Usage
from app.llm.openai_chat import OpenAIChat
from tests.harness.scripted_endpoint import DONE, EVENT_STREAM, Reply, ScriptedEndpoint, event, finish, stream
from tests.unit.llm.reading import Case, Outcome, ask, cut_at, read

PLAIN = b"".join([event({"role": "assistant"}), event({"content": "Hel"}), event({"content": "lo"}), finish()])
HELLO = Outcome("Hello", usage=Usage(11, 7))
SPLIT_LINES = re.compile(rb"\r\n|\r|\n")
EMOJI = "鹭🙂𩸽 鼓楼"
ODD_SPACES = "x\u2028y\u0085z\x0b\x0c\x1c\x1d"


def one(words: str) -> bytes:
    """A stream whose single delta holds the words as they are, unescaped where JSON allows."""
    return event({"content": words}) + finish()


CASES = [
    Case("plain", PLAIN, HELLO),
    Case("crlf-P11", PLAIN.replace(b"\n", b"\r\n"), HELLO),
    Case("lone-cr", PLAIN.replace(b"\n", b"\r"), HELLO),
    Case("mixed-line-ends", PLAIN.replace(b"\n\n", b"\r\n\n", 2).replace(b"\n\n", b"\n\r", 1), HELLO),
    Case("no-space-after-data-P11", PLAIN.replace(b"data: ", b"data:"), HELLO),
    Case("byte-order-mark", b"\xef\xbb\xbf" + PLAIN, HELLO),
    Case("comments-P11", b": ping\n\n" + PLAIN.replace(b"data: ", b": keep-alive\n\n:\ndata: "), HELLO),
    Case("event-and-id-lines-P11", PLAIN.replace(b"data: ", b"event: message\nid: 7\nretry: 10\ndata: "), HELLO),
    Case("blank-lines-between", PLAIN.replace(b"\n\n", b"\n\n\n\n\n"), HELLO),
    Case("several-data-lines", PLAIN.replace(b'"choices"', b'\ndata: "choices"'), HELLO),
    Case("last-event-without-blank-line", PLAIN.removesuffix(b"\n\n"), HELLO),
    Case("one-line-end-between-events", PLAIN.replace(b"\n\n", b"\n"), HELLO),
    Case("done-with-other-spaces", PLAIN.replace(b"data: [DONE]", b"data:  [DONE] "), HELLO),
    Case("characters-of-four-bytes-P13", one(EMOJI), Outcome(EMOJI, usage=Usage(11, 7))),
    Case("raw-u2028-and-u0085-S15", one("x\u2028y\u0085z"), Outcome("x\u2028y\u0085z", usage=Usage(11, 7))),
    Case(
        "junk-between", PLAIN.replace(b"data: ", b"data: {not json\n\ndata: nonsense\n\ndata: [1]\n\ndata: ", 1), HELLO
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_every_layout_gives_the_text_of_the_plain_one(
    case: Case, endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Over a real connection (P11, P13, S15)."""
    answer = await ask(model, endpoint.script(stream(case.data)))
    assert answer.outcome == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_layout_is_the_same_at_every_place_it_can_be_cut(case: Case) -> None:
    """Each single cut, and every byte in a read of its own (P11, P13)."""
    for place in range(len(case.data)):
        assert read(cut_at(case.data, [place])) == case.expected, place
    assert read([case.data[i : i + 1] for i in range(len(case.data))]) == case.expected


def reference(data: bytes) -> list[bytes]:
    """The events of a whole stream, line by line as WHATWG HTML 9.2.6 puts it, and the rest released at the end."""
    out: list[bytes] = []
    lines: list[bytes] = []
    for line in [*SPLIT_LINES.split(data.removeprefix(b"\xef\xbb\xbf")), b""]:
        name, _, value = line.partition(b":")
        if not line:
            if lines:
                out.append(b"\n".join(lines))
            lines = []
        elif name == b"data":
            lines.append(value.removeprefix(b" "))
    return out


FRAGMENTS = st.sampled_from(
    [
        *b"data: |data:|data|dat|a: |x|{}|: c|id: 1|event: e| |\n|\n\n|\r|\r\n|\r\n\r\n|\xef\xbb\xbf|\xe2\x80\xa8".split(
            b"|"
        )
    ]
)


@given(fragments=st.lists(FRAGMENTS, max_size=24), cuts=st.lists(st.integers(0, 120), max_size=12))
def test_any_bytes_cut_anywhere_give_the_events_of_the_line_by_line_reading(
    fragments: list[bytes], cuts: list[int]
) -> None:
    """The fast splitter equals a slow reference, for every input and cut (P11)."""
    data = b"".join(fragments)
    events = EventStream()
    got = [payload for piece in cut_at(data, cuts) for payload in events.feed(piece)] + events.flush()
    assert got == reference(data)


def test_an_event_is_given_as_soon_as_its_last_byte_is_there() -> None:
    """A CR ends a line at once: nothing waits to see whether a LF follows."""
    events = EventStream()
    assert events.feed(b"data: 1\r\n\r") == [b"1"]
    assert events.feed(b"\ndata: 2\r\r") == [b"2"]
    assert events.feed(b"data: 3\n\n") == [b"3"]


def test_an_event_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound counts over reads."""
    monkeypatch.setattr(event_stream_module, "MAX_EVENT_BYTES", 100)
    events = EventStream()
    assert events.feed(b"data: " + b"x" * 90) == []
    with pytest.raises(EventTooLarge):
        events.feed(b"x" * 10)


async def test_a_compressed_stream_is_decoded_step_by_step(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """Identity is asked for; where an endpoint compresses anyway, the text is the same (S02)."""
    squeeze = zlib.compressobj(wbits=31)
    pieces = [squeeze.compress(part) + squeeze.flush(zlib.Z_SYNC_FLUSH) for part in (PLAIN[:200], PLAIN[200:])]
    script = endpoint.script(stream(*pieces, squeeze.flush(), content_encoding="gzip"))
    assert (await ask(model, script)).outcome == HELLO
    assert script.requests[0].headers["accept-encoding"] == "identity"


async def test_a_damaged_compressed_stream_is_an_interruption(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """What can't be decompressed is a broken reply, not a crash (S02)."""
    broken = gzip.compress(PLAIN)[:40] + b"\x00" * 40
    answer = await ask(model, endpoint.script(stream(broken, content_encoding="gzip")))
    assert answer.failure is not None
    assert answer.failure.code == "model_interrupted"


async def test_an_unknown_compression_is_named(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """A coding that can't be read is a clear failure, not junk (S02)."""
    answer = await ask(model, endpoint.script(stream(PLAIN, content_encoding="exotic")))
    assert answer.failure is not None
    assert (answer.failure.code, answer.failure.transient) == ("model_unreachable", False)
    assert "exotic" in answer.failure.message


async def test_a_body_ended_by_its_connection_is_whole(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """HTTP/1.0 manners: no length, no chunks."""
    script = endpoint.script(Reply([PLAIN], headers=EVENT_STREAM, framing="close"))
    assert (await ask(model, script)).outcome == HELLO


async def test_tokens_that_arrive_together_are_one_delta(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """Several events in one write become one delta; none is lost or reordered."""
    words = "".join(f"word{n} " for n in range(200))
    burst = b"".join(event({"content": words[i : i + 7]}) for i in range(0, len(words), 7))
    answer = await ask(model, endpoint.script(stream(burst, event({}, "stop"), DONE)))
    assert answer.outcome.text == words
    assert len(answer.deltas) < 10
