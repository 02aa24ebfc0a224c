"""What is sent to an endpoint, and what is stored. Cases A07, A11, A13, A14, A15, P04."""

import json
import re
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.capabilities import IdFormat
from app.llm.model import (
    AssistantMessage,
    Feature,
    Message,
    ModelRequest,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from app.llm.shape import Profile, from_stored, shape, to_stored

PROFILE = Profile(model="m", origin="here m")
TOOL = ToolSpec("timeline", "Dated facts.", {"type": "object", "properties": {"id": {"type": "string"}}})
NINE = re.compile(r"[A-Za-z0-9]{9}")


def sent(*messages: Message, profile: Profile = PROFILE) -> list[dict[str, Any]]:
    """The messages as they would be sent."""
    return cast("list[dict[str, Any]]", shape(ModelRequest(messages), profile).body["messages"])


def exchange(*ids: str) -> tuple[Message, ...]:
    """A question, calls of these ids with their results, an answer."""
    calls = tuple(ToolCall(call_id, "timeline", "{}") for call_id in ids)
    results = tuple(ToolMessage(call_id, f"OK: {call_id}") for call_id in ids)
    return UserMessage("q"), AssistantMessage(None, calls), *results, AssistantMessage("a")


def test_a_request_in_full() -> None:
    """Every field of a plain request with tools."""
    request = ModelRequest((SystemMessage("s"), UserMessage("q")), tools=(TOOL,), tool_choice="required")
    shaped = shape(request, replace(PROFILE, parallel_tool_calls=True))
    assert shaped.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "timeline",
                    "description": "Dated facts.",
                    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": True,
    }
    assert shaped.sent == {Feature.TOOLS, Feature.TOOL_CHOICE, Feature.PARALLEL_TOOL_CALLS, Feature.STREAM_OPTIONS}


@pytest.mark.parametrize(
    ("feature", "field"),
    [
        (Feature.TOOL_CHOICE, "tool_choice"),
        (Feature.PARALLEL_TOOL_CALLS, "parallel_tool_calls"),
        (Feature.STREAM_OPTIONS, "stream_options"),
    ],
)
def test_an_avoided_field_is_left_out_and_the_others_stay(feature: Feature, field: str) -> None:
    """Whether the request or the endpoint's record says so (P16)."""
    request = ModelRequest((UserMessage("q"),), tools=(TOOL,), tool_choice="required")
    profile = replace(PROFILE, parallel_tool_calls=True)
    full = shape(request, profile)
    by_request = shape(replace(request, avoid=frozenset({feature})), profile)
    by_record = shape(request, replace(profile, avoid=frozenset({feature})))
    assert by_request == by_record
    assert by_request.body == {key: value for key, value in full.body.items() if key != field}
    assert by_request.sent == full.sent - {feature}


def test_without_tools_no_tool_field_is_sent() -> None:
    """`tool_choice: none` isn't understood everywhere, nor are empty lists."""
    bare = shape(ModelRequest((UserMessage("q"),), tool_choice="required"), replace(PROFILE, parallel_tool_calls=True))
    avoided = shape(ModelRequest((UserMessage("q"),), tools=(TOOL,), avoid=frozenset({Feature.TOOLS})), PROFILE)
    assert set(bare.body) == set(avoided.body) == {"model", "messages", "stream", "stream_options"}


def test_an_assistant_message_with_calls_has_empty_content_not_null() -> None:
    """Some endpoints refuse null, others a missing key (A14)."""
    assert sent(*exchange("c1"))[1] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "timeline", "arguments": "{}"}}],
    }


IDS = ("call_00_aaaaaaaa1", "call_00_aaaaaaaa2", "0b0e0d2c-7a3f-4c56-9d7e-000000000001", "AbCdEf123")


def test_ids_are_mapped_to_nine_characters_without_collision() -> None:
    """The same on call and result, unique, and an id that fits stays (A14)."""
    profile = replace(PROFILE, id_format=IdFormat.NINE)
    messages = sent(*exchange(*IDS), profile=profile)
    call_ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert all(NINE.fullmatch(call_id) for call_id in call_ids)
    assert len(set(call_ids)) == 4
    assert call_ids[3] == "AbCdEf123"
    assert [message["tool_call_id"] for message in messages[2:6]] == call_ids
    assert sent(*exchange(*IDS), profile=profile) == messages
    learnt = replace(PROFILE, avoid=frozenset({Feature.CALL_IDS}))
    assert sent(*exchange(*IDS), profile=learnt) == messages


@pytest.mark.parametrize("id_format", list(IdFormat))
def test_an_id_that_repeats_over_rounds_is_made_unique(id_format: IdFormat) -> None:
    """Some providers count from 0 in every reply; results stay with their own round (A14)."""
    messages = sent(*exchange("c1"), *exchange("c1"), profile=replace(PROFILE, id_format=id_format))
    pairs = [(messages[at]["tool_calls"][0]["id"], messages[at + 1]["tool_call_id"]) for at in (1, 5)]
    assert all(call_id == result_id for call_id, result_id in pairs)
    assert len(set(pairs)) == 2


@given(
    ids=st.lists(st.text("ab-_. 🙂", min_size=1, max_size=12), min_size=1, max_size=8, unique=True), nine=st.booleans()
)
def test_any_ids_stay_paired(ids: list[str], nine: bool) -> None:
    """Whatever ids were stored, every result finds its call (A14)."""
    id_format = IdFormat.NINE if nine else IdFormat.ANY
    messages = sent(*exchange(*ids), profile=replace(PROFILE, id_format=id_format))
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    assert [results[call["id"]] for call in messages[1]["tool_calls"]] == [f"OK: {call_id}" for call_id in ids]


REASONED = AssistantMessage(None, (ToolCall("c1", "timeline", "{}"),), Reasoning("reasoning_content", "R1", "here m"))
RESULT = ToolMessage("c1", "OK: x")


def test_reasoning_goes_back_to_where_it_came_from_and_nowhere_else() -> None:
    """In its own field, on the message of its calls (A11)."""
    here = sent(UserMessage("q"), REASONED, RESULT)
    elsewhere = sent(UserMessage("q"), REASONED, RESULT, profile=replace(PROFILE, origin="there m"))
    refused = sent(UserMessage("q"), REASONED, RESULT, profile=replace(PROFILE, avoid=frozenset({Feature.REASONING})))
    assert here[1]["reasoning_content"] == "R1"
    assert "reasoning_content" not in elsewhere[1]
    assert refused == elsewhere


def test_reasoning_from_think_tags_is_never_sent() -> None:
    """It came in the content, which has no field for it (P09)."""
    tagged = replace(REASONED, reasoning=Reasoning("content", "R1", "here m"))
    assert sent(UserMessage("q"), tagged, RESULT)[1]["content"] == ""


def test_unknown_fields_of_a_call_go_back_to_where_they_came_from() -> None:
    """A signature on the first of two calls; a field can't overwrite the protocol's own (A13)."""
    extra = {"extra_content": {"google": {"thought_signature": "c2ln"}}, "id": "forged"}
    calls = (ToolCall("g1", "timeline", "{}", extra, "here m"), ToolCall("g2", "timeline", "{}"))
    messages = (UserMessage("q"), AssistantMessage(None, calls), ToolMessage("g1", "OK: 1"), ToolMessage("g2", "OK: 2"))
    plain = {"type": "function", "function": {"name": "timeline", "arguments": "{}"}}
    assert sent(*messages)[1]["tool_calls"] == [
        {"id": "g1", **plain, "extra_content": {"google": {"thought_signature": "c2ln"}}},
        {"id": "g2", **plain},
    ]
    elsewhere = sent(*messages, profile=replace(PROFILE, origin="there m"))
    assert elsewhere[1]["tool_calls"] == [{"id": "g1", **plain}, {"id": "g2", **plain}]


@pytest.mark.parametrize(
    ("arguments", "wire"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("null", "{}"),
        ("[1]", "{}"),
        ('{"query":"caf\\u00', "{}"),
        ("[" * 5000, "{}"),
    ],
)
def test_arguments_are_always_sent_as_a_json_object(arguments: str, wire: str) -> None:
    """Endpoints parse what they are sent back: cut arguments would be refused for ever (P04, A07)."""
    messages = sent(
        UserMessage("q"), AssistantMessage(None, (ToolCall("c", "timeline", arguments),)), ToolMessage("c", "ERROR: x")
    )
    assert messages[1]["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "timeline", "arguments": wire}}
    ]


def test_a_name_the_model_made_up_is_sent_as_a_name() -> None:
    """Letters, digits, underscore and hyphen, at most 64."""
    name = "functions.look everywhere!" + "x" * 80
    messages = sent(
        UserMessage("q"), AssistantMessage(None, (ToolCall("c", name, "{}"),)), ToolMessage("c", "ERROR: x")
    )
    assert json.dumps(messages[1]).count('"functions_look_everywhere_' + "x" * 38 + '"') == 1


LATE = (SystemMessage("s"), UserMessage("q1"), AssistantMessage("a1"), SystemMessage("entities"), UserMessage("q2"))


def test_a_late_system_message_stays_where_it_is_by_default() -> None:
    """And counts as sent, so that its refusal is understood (A15)."""
    shaped = shape(ModelRequest(LATE), PROFILE)
    roles = [message["role"] for message in sent(*LATE)]
    assert roles == ["system", "user", "assistant", "system", "user"]
    assert Feature.LATE_SYSTEM in shaped.sent


def test_late_system_messages_are_folded_into_the_first_where_refused() -> None:
    """One system message, first, in the order of the texts; none as a user's word (A15)."""
    request = ModelRequest(LATE, avoid=frozenset({Feature.LATE_SYSTEM}))
    shaped = shape(request, PROFILE)
    assert shaped.body["messages"] == [
        {"role": "system", "content": "s\n\nentities"},
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "q2"},
    ]
    assert Feature.LATE_SYSTEM not in shaped.sent
    only_late = ModelRequest((UserMessage("q"), SystemMessage("x")), avoid=frozenset({Feature.LATE_SYSTEM}))
    assert shape(only_late, PROFILE).body["messages"] == [
        {"role": "system", "content": "x"},
        {"role": "user", "content": "q"},
    ]


def test_nothing_unsendable_is_sent() -> None:
    """NUL and lone surrogates of any message are cleaned once more at the door (D01)."""
    assert sent(SystemMessage("a\x00"), UserMessage("\ud83db"))[1]["content"] == "\ufffdb"


CALL = AssistantMessage(None, (ToolCall("c1", "timeline", "{}"),))
TWICE = AssistantMessage(None, (ToolCall("c1", "timeline", "{}"), ToolCall("c2", "timeline", "{}")))
BROKEN: list[tuple[tuple[Message, ...], str]] = [
    ((), "without messages"),
    ((UserMessage("q"), CALL), "before the result of 'c1'"),
    ((UserMessage("q"), CALL, UserMessage("q2"), RESULT), "message 2: user before the result of 'c1'"),
    ((UserMessage("q"), RESULT), "message 1: a result for 'c1'"),
    ((UserMessage("q"), CALL, RESULT, RESULT), "message 3: a result for 'c1'"),
    ((UserMessage("q"), CALL, ToolMessage("other", "x")), "message 2: a result for 'other'"),
    ((UserMessage("q"), TWICE, RESULT, AssistantMessage("a")), "message 3: assistant before the result of 'c2'"),
    ((UserMessage("q"), AssistantMessage(None)), "message 1: an assistant message with neither text nor calls"),
    ((UserMessage("q"), AssistantMessage("")), "message 1: an assistant message with neither text nor calls"),
]


@pytest.mark.parametrize(("messages", "fault"), BROKEN)
def test_a_list_that_breaks_the_protocol_is_a_bug_and_named(messages: tuple[Message, ...], fault: str) -> None:
    """Each call has exactly one result directly after it; nothing of the kind is ever sent (DESIGN 6)."""
    with pytest.raises(ValueError, match=re.escape(fault)):
        sent(*messages)


def test_two_calls_with_one_id_are_a_bug() -> None:
    """Their results could not be told apart."""
    same = AssistantMessage(None, (ToolCall("c1", "timeline", "{}"), ToolCall("c1", "timeline", "{}")))
    with pytest.raises(ValueError, match="c1"):
        sent(UserMessage("q"), same, RESULT, RESULT)


MESSAGES: list[Message] = [
    SystemMessage("s"),
    UserMessage("q 🙂"),
    ToolMessage("c1", "OK: x"),
    AssistantMessage("a"),
    AssistantMessage(""),
    AssistantMessage(None, (ToolCall("c1", "timeline", '{"a":1}'),)),
    AssistantMessage(
        "Looking.",
        (
            ToolCall("c1", "timeline", "{}", {"extra_content": {"google": {"thought_signature": "c2ln"}}}, "here m"),
            ToolCall("c2", "timeline", "{}", {"note": 1}),
        ),
        Reasoning("reasoning_content", "R1", "here m"),
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_stored_message_comes_back_as_it_was(message: Message) -> None:
    """Also through JSON, with reasoning and signatures (A11, A13)."""
    assert from_stored(json.loads(json.dumps(to_stored(message)))) == message


def test_the_stored_form_is_the_protocols_own() -> None:
    """Anybody who knows the protocol can read a row; what is ours has one key."""
    assert to_stored(MESSAGES[-1]) == {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "timeline", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "c2ln"}},
                "x_turnstream": {"origin": "here m"},
            },
            {"id": "c2", "type": "function", "function": {"name": "timeline", "arguments": "{}"}, "note": 1},
        ],
        "x_turnstream": {"reasoning": {"field": "reasoning_content", "text": "R1", "origin": "here m"}},
    }


def test_what_is_stored_is_clean() -> None:
    """Postgres refuses NUL and lone surrogates anywhere in JSONB (D01)."""
    message = AssistantMessage("a\x00", (ToolCall("c\x00", "t\x00", "\ud83d", {"k\x00": ["\x00v"]}),))
    assert to_stored(message) == {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "\ufffd"}, "k": ["v"]}],
    }


FUNCTION = {"name": "timeline", "arguments": "{}"}
MALFORMED: list[dict[str, object]] = [
    {},
    {"role": "narrator", "content": "x"},
    {"role": "user"},
    {"role": "user", "content": None},
    {"role": "tool", "content": "x"},
    {"role": "tool", "content": "x", "tool_call_id": ""},
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": 7},
    {"role": "assistant", "content": "x", "tool_calls": None},
    {"role": "assistant", "content": None, "tool_calls": ["x"]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "", "function": FUNCTION}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "t"}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "", "arguments": ""}}]},
    {"role": "assistant", "content": "x", "x_turnstream": 7},
    {"role": "assistant", "content": "x", "x_turnstream": {"reasoning": {"text": "R"}}},
]


@pytest.mark.parametrize("stored", MALFORMED, ids=json.dumps)
def test_a_malformed_row_is_refused(stored: dict[str, object]) -> None:
    """A guess would be sent to a model."""
    with pytest.raises(ValueError, match=r"must|needs"):
        from_stored(stored)
