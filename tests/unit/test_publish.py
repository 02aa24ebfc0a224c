"""Run events become frames: offsets, paragraphs, steps and sources, and what is stored in the end."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import TurnErrorCode
from app.live.frames import Conversation, Delta, Frame, Source, Sources, Step, TurnUsage
from app.llm.model import AssistantMessage, Message, ToolCall, ToolMessage, Usage
from app.tools.tool import Entity, NumberedSource
from app.turn.hooks import Accept, CallOutcome, Fail
from app.turn.outcome import Answered, Broke, Outcome
from app.turn.publish import AnswerTooLong, Draft, Publisher
from app.turn.runner import Called, CallEnded, Ended, ModelAnswered, RoundEnded, RunEvent, Text, TextBegan

OUTCOME = CallOutcome("ok", "OK: [1] board.md", "search", "board", "1 passage")
RESULT = ToolMessage("c1", "OK: [1] board.md")
CALLED = Called(AssistantMessage(None, (ToolCall("c1", "search_chunks", "{}"),)))
ENDED = CallEnded("c1", "search_chunks", OUTCOME, 12, RESULT)
ENTITY = Entity("e1", "OpenAI", "organization")


@dataclass
class Turn:
    """A publisher with the frames it wrote (it is its own Writer) and the sources its tools have brought."""

    max_chars: int = 10_000
    frames: list[Frame] = field(default_factory=list[Frame])
    gathered: list[NumberedSource] = field(default_factory=list[NumberedSource])

    def __post_init__(self) -> None:
        self.publisher = Publisher(
            self, gathered=lambda: self.gathered, resolved=lambda: [ENTITY], max_chars=self.max_chars
        )

    def append(self, frame: Frame) -> int:
        self.frames.append(frame)
        return len(self.frames)

    @property
    def next_seq(self) -> int:
        return len(self.frames) + 1

    def take(self, *events: RunEvent) -> "Turn":
        for event in events:
            self.publisher.take(event)
        return self

    def find(self, count: int = 1) -> None:
        for _ in range(count):
            n = len(self.gathered) + 1
            self.gathered.append(NumberedSource(n, "chunk", f"k{n}", "d1", "board.md", "The board", "…"))


def step(n: int, at: int) -> Step:
    return Step(n, at, "c1", "search_chunks", "search", "board", "1 passage", "ok", 12)


def sources(count: int) -> Sources:
    return Sources(tuple(Source(n, "chunk", f"k{n}", "d1", "board.md", "The board", "…") for n in range(1, count + 1)))


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def test_offsets_are_those_of_the_browser() -> None:
    """Case T01: the report's own answer, with a step in the middle and one at the end."""
    first, second = "A🦀🧭 中e\u0301", "👨\u200d👩\u200d👧"
    turn = Turn().take(TextBegan(), Text(first), ENDED, Text(second), ENDED)
    assert turn.frames == [Delta(0, first), step(1, 9), Delta(9, second), step(2, 17)]
    assert turn.publisher.content == first + second


def test_text_is_stored_in_the_order_it_was_written() -> None:
    """Case T08: right-to-left text is never reordered, and its offsets are logical ones."""
    arabic = "شغّل `run.sh -v` ثم [[1]] في Berlin."
    turn = Turn().take(TextBegan(), Text(arabic), ENDED)
    assert turn.frames == [Delta(0, arabic), step(1, utf16_length(arabic))]


def test_a_step_comes_before_the_sources_it_brought() -> None:
    """DESIGN 5: the whole list, each time it changes, after its step."""
    turn = Turn()
    turn.find()
    turn.take(ENDED)
    turn.take(ENDED)
    turn.find(2)
    turn.take(ENDED)
    assert turn.frames == [step(1, 0), sources(1), step(2, 0), step(3, 0), sources(3)]
    assert turn.publisher.sources == tuple(turn.gathered)


@pytest.mark.parametrize(
    ("before", "gap"),
    [
        ([], ""),
        (["Let me look."], "\n\n"),
        (["Let me look.\n"], "\n"),
        (["Let me look.", "\n"], "\n"),
        (["Let me look.\n\n"], ""),
        (["Let me look.\n", "\n"], ""),
        (["Let me look.", "\n", "\n"], ""),
        (["Let me look.\n\n\n"], ""),
        (["\n"], "\n"),
    ],
)
def test_the_texts_of_two_model_turns_are_paragraphs_of_one_answer(before: list[str], gap: str) -> None:
    """The separator is part of the answer, counted, and only as much as is missing."""
    turn = Turn().take(*([TextBegan()] if before else []), *map(Text, before), TextBegan(), Text("Two 🦀."), ENDED)
    said = "".join(before)
    assert turn.frames[-2:] == [Delta(len(said), f"{gap}Two 🦀."), step(1, len(said) + len(gap) + 7)]
    assert turn.publisher.content == f"{said}{gap}Two 🦀."


def test_a_model_turn_that_says_nothing_leaves_no_separator() -> None:
    """A paragraph that began and never came is not published."""
    turn = Turn().take(TextBegan(), Text("a"), TextBegan(), ENDED)
    assert (turn.frames, turn.publisher.content) == ([Delta(0, "a"), step(1, 1)], "a")


EVENTS = st.lists(
    st.just(TextBegan())
    | st.text(min_size=1).map(Text)
    | st.sampled_from(["\n", "\n\n", "🦀"]).map(Text)
    | st.just(ENDED),
    max_size=30,
)


@given(EVENTS)
def test_every_at_is_the_length_before_it_and_joined_deltas_are_the_content(events: list[RunEvent]) -> None:
    """Cases T01 and T04: for any sequence of texts and calls."""
    turn = Turn().take(*events)
    shown = ""
    for frame in turn.frames:
        assert isinstance(frame, Delta | Step)
        assert frame.at == utf16_length(shown)
        shown += frame.text if isinstance(frame, Delta) else ""
    assert shown == turn.publisher.content == turn.publisher.draft().content
    assert turn.publisher.chars == len(shown)
    assert [s.n for s in turn.publisher.steps] == list(range(1, len(turn.publisher.steps) + 1))
    assert shown.replace("\n", "") == "".join(e.text for e in events if isinstance(e, Text)).replace("\n", "")


@given(EVENTS, st.data())
def test_the_text_after_any_character_is_the_rest_of_it(events: list[RunEvent], data: st.DataObject) -> None:
    """Asked for again and again while the turn goes on, as it is written down; asking changes nothing."""
    turn, written = Turn(), ""
    for event in events:
        turn.take(event)
        if data.draw(st.booleans()):
            written += turn.publisher.text_after(len(written))
            assert written == "".join(frame.text for frame in turn.frames if isinstance(frame, Delta))
    content = turn.publisher.content
    at = data.draw(st.integers(0, len(content)))
    assert turn.publisher.text_after(at) == content[at:]
    assert turn.publisher.content == content == Turn().take(*events).publisher.content


def test_an_answer_beyond_the_limit_is_ended_and_keeps_what_was_shown() -> None:
    """`answer_too_long`: the piece that would pass the limit is not published, its separator neither."""
    turn = Turn(max_chars=10).take(TextBegan(), Text("12345"), Text("67"), TextBegan())
    with pytest.raises(AnswerTooLong):
        turn.take(Text("89"))
    assert (turn.frames, turn.publisher.content) == ([Delta(0, "12345"), Delta(5, "67")], "1234567")
    assert Turn(max_chars=10).take(Text("1234567890")).publisher.chars == 10


def test_a_draft_is_the_turn_as_it_stands() -> None:
    """DESIGN 8: text, steps, sources, entities, and the exchange with the model, calls made by the turn left out."""
    turn = Turn()
    turn.find()
    gathered = CallEnded("gathered_0", "search_chunks", OUTCOME, 12, None)
    turn.take(TextBegan(), Text("Let me look."), CALLED, ENDED, RoundEnded(), gathered)
    own = Step(2, 12, "gathered_0", "search_chunks", "search", "board", "1 passage", "ok", 12)
    exchange: tuple[Message, ...] = (CALLED.message, RESULT)
    found = tuple(turn.gathered)
    assert turn.publisher.draft() == Draft("Let me look.", (step(1, 12), own), found, (ENTITY,), exchange)
    assert len(found) == 1


def test_usage_is_the_sum_of_what_the_provider_said() -> None:
    """DESIGN 5: None stays None until somebody says a number."""
    turn = Turn().take(ModelAnswered(Usage()))
    assert turn.publisher.usage(truncated=False) == TurnUsage(requests=1)
    turn.take(ModelAnswered(Usage(10, 2, None, 1)), ModelAnswered(Usage(5, None, 3, 1)))
    assert turn.publisher.usage(truncated=True) == TurnUsage(15, 2, 2, 3, 3, truncated=True)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (Accept(truncated=False), Answered()),
        (Accept(truncated=True), Answered(truncated=True)),
        (Fail(TurnErrorCode.ANSWER_EMPTY, "Nothing."), Broke(TurnErrorCode.ANSWER_EMPTY, "Nothing.")),
    ],
)
def test_the_end_of_a_run_is_kept_and_no_frame(ending: Accept | Fail, outcome: Outcome) -> None:
    """The terminal frame waits until the answer is saved."""
    turn = Turn()
    assert turn.publisher.outcome is None
    turn.take(Ended(ending))
    assert (turn.publisher.outcome, turn.frames) == (outcome, [])


def test_the_first_and_the_last_frame_are_the_lifecycle_s() -> None:
    """DESIGN 5: `conversation` first, one terminal last, with seqs in between."""
    turn = Turn()
    conversation = Conversation("c", "t", "m", "Who?")
    turn.publisher.begin(conversation)
    assert turn.publisher.next_seq == 2
    turn.publisher.end(Delta(0, ""))
    assert turn.frames == [conversation, Delta(0, "")]


def test_sources_of_the_previous_answer_can_be_carried() -> None:
    """DESIGN 6: a turn that only rewords publishes the list it still rests on, and an empty one is no change."""
    turn = Turn()
    turn.publisher.set_sources(())
    assert turn.frames == []
    turn.find(2)
    turn.publisher.set_sources(turn.gathered)
    assert turn.frames == [sources(2)]
    assert turn.publisher.frame_sources == sources(2).sources
