"""`at` counts UTF-16 code units of the answer text published before a frame. Source: DESIGN section 5, T01."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.app import App, utf16
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text


async def test_an_offset_is_what_a_browser_would_slice_at(app: App, endpoint: ScriptedEndpoint) -> None:
    """Characters outside the BMP count twice, combining marks and joiners count each (case T01)."""
    before = "A🦀🧭 中e\u0301"
    family = "👨‍👩‍👧"
    script = endpoint.script(
        call(("search_chunks", {"query": "board"}), say=before),
        call(("search_chunks", {"query": "Altman"}), say=family),
        text("Done [1]."),
    )
    turn = await app.ask(f"How many? {script}")
    first, second = turn.of("step")
    assert first["at"] == utf16(before) == 9
    assert second["at"] == utf16(before + "\n\n" + family)
    assert turn.answer == f"{before}\n\n{family}\n\nDone [1]."


async def test_a_surrogate_pair_that_the_provider_split_over_two_events_is_one_character(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """Halves sent as JSON escapes are joined; a half that stays alone becomes U+FFFD (case D01)."""
    halves = stream(
        event({"content": "Moon "}),
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83c"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\udf19 and \\ud83d half [1]"}}]}\n\n',
        finish(),
    )
    turn = await app.ask(f"How many? {endpoint.script(call(('search_chunks', {'query': 'board'})), halves)}")
    assert turn.answer == "Moon 🌙 and � half [1]"
    assert (await app.messages(turn.conversation_id))[-1]["content"] == turn.answer


async def test_nul_never_fails_a_turn_wherever_it_comes_from(app: App, endpoint: ScriptedEndpoint) -> None:
    """In the question, the answer and a tool's arguments it is removed before anything is counted (case D01)."""
    script = endpoint.script(
        call(("search_chunks", '{"query":"bo\\u0000ard \\ud83d"}')),
        stream(event({"content": "before\x00after [1]"}), finish()),
    )
    turn = await app.ask(f"a question with \x00 inside {script}")
    assert turn.answer == "beforeafter [1]"
    question, answer = await app.messages(turn.conversation_id)
    assert "\x00" not in question["content"]
    assert answer["content"] == turn.answer
    assert turn.of("step")[0]["label"] == "board �"


TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), st.sampled_from("🦀👩‍🌾𩸽🇳🇴e\u0301")
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(narration=TEXTS, answer=TEXTS, size=st.integers(1, 9))
async def test_for_any_text_offsets_agree_and_stored_text_is_the_joined_deltas(
    app: App, endpoint: ScriptedEndpoint, narration: str, answer: str, size: int
) -> None:
    """The stream's contract (checked by ask) holds for whatever the model writes (cases T01, T04, T06)."""
    script = endpoint.script(
        call(("search_chunks", {"query": "board"}), say=narration), text(f"x{answer}", size=size), text("y")
    )
    turn = await app.ask(f"How many? {script}")
    stored = (await app.messages(turn.conversation_id))[-1]
    assert stored["content"] == turn.answer
    assert [s["at"] for s in stored["steps"]] == [s["at"] for s in turn.of("step")]
    assert all("�" not in d["text"] or "�" in narration + answer for d in turn.of("delta"))
