"""How pieces of tool calls come together. Family "tool calls" of issue 3, cases P01, P03, P04, P13, A07, A13, D01."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.model import Finish, ToolCall
from app.llm.openai_chat import OpenAIChat
from tests.harness.scripted_endpoint import DONE, ScriptedEndpoint, call, event, stream
from tests.unit.llm.reading import ORIGIN, TOOL_NAMES, Case, Outcome, ask, cut_at, read, read_turn

END = event({}, "tool_calls") + DONE


def piece(
    index: object = None, call_id: object = None, name: object = None, arguments: object = None
) -> dict[str, object]:
    """An entry of `tool_calls` with the fields that are given; "" is given, None is not."""
    entry: dict[str, object] = {"index": index, "id": call_id}
    function = {"name": name, "arguments": arguments}
    out = {key: value for key, value in entry.items() if value is not None}
    return out | {"function": {key: value for key, value in function.items() if value is not None}}


def calls(*deltas: dict[str, object] | list[dict[str, object]]) -> bytes:
    """A stream of deltas, each of one entry or several, with its end."""
    lists = [delta if isinstance(delta, list) else [delta] for delta in deltas]
    return b"".join(event({"tool_calls": entries}) for entries in lists) + END


def made(*expected: tuple[str, str]) -> Outcome:
    return Outcome(calls=expected, finish=Finish.TOOL_CALLS)


ACME = '{"name":"Acme"}'
THREE = (
    ("find_entities", '{"name":"北辰"}'),
    ("find_entities", '{"name":"南湖"}'),
    ("find_entities", '{"name":"东溪"}'),
)
MANY = tuple(("get_document", json.dumps({"document_id": n})) for n in range(30))

CASES = [
    Case(
        "no-index-P01A",
        calls(piece(None, "c1", "find_entities", '{"na'), piece(arguments='me":"Acme"}')),
        made(("find_entities", ACME)),
    ),
    Case(
        "all-index-0-other-ids-P01B",
        calls(*(piece(0, call_id, *args) for call_id, args in zip("abc", THREE, strict=True))),
        made(*THREE),
    ),
    Case(
        "all-index-0-other-ids-in-pieces",
        calls(
            piece(0, "a", "timeline", '{"a"'),
            piece(0, arguments=":1}"),
            piece(0, "b", "timeline", '{"b"'),
            piece(0, arguments=":2}"),
        ),
        made(("timeline", '{"a":1}'), ("timeline", '{"b":2}')),
    ),
    Case(
        "all-index-0-other-names-no-ids",
        calls(piece(0, None, "timeline", '{"a":1}'), piece(0, None, "neighbors", '{"b":2}')),
        made(("timeline", '{"a":1}'), ("neighbors", '{"b":2}')),
    ),
    Case(
        "no-index-no-ids-same-name",
        calls(*(piece(None, None, *args) for args in THREE)),
        made(*THREE),
    ),
    Case("no-index-one-delta", calls([piece(None, None, *args) for args in THREE]), made(*THREE)),
    Case(
        "no-index-one-delta-without-arguments",
        calls([piece(None, None, "timeline", ""), piece(None, None, "timeline", "")]),
        made(("timeline", ""), ("timeline", "")),
    ),
    Case(
        "no-index-new-ids",
        calls(
            piece(None, "a", "timeline", '{"a"'),
            piece(None, "b", "neighbors", '{"b"'),
            piece(None, "a", None, ":1}"),
            piece(None, "b", None, ":2}"),
        ),
        made(("timeline", '{"a":1}'), ("neighbors", '{"b":2}')),
    ),
    Case(
        "index-only-later",
        calls(
            piece(None, "a", "timeline", '{"a"'),
            piece(0, arguments=":1}"),
            piece(1, "b", "timeline", '{"b"'),
            piece(1, arguments=":2}"),
            piece(0, arguments=" "),
        ),
        made(("timeline", '{"a":1} '), ("timeline", '{"b":2}')),
    ),
    Case(
        "index-as-text",
        calls(piece("0", "a", "timeline", "{"), piece("1", "b", "timeline", "{}"), piece("0", arguments="}")),
        made(("timeline", "{}"), ("timeline", "{}")),
    ),
    Case(
        "interleaved-by-index",
        calls(
            piece(0, "a", "timeline", ""),
            piece(1, "b", "neighbors", ""),
            piece(1, arguments='{"b":2}'),
            piece(0, arguments='{"a":1}'),
        ),
        made(("timeline", '{"a":1}'), ("neighbors", '{"b":2}')),
    ),
    Case(
        "same-id-twice",
        calls(piece(0, "x", "timeline", "{}"), piece(1, "x", "timeline", "{}")),
        made(*[("timeline", "{}")] * 2),
    ),
    Case(
        "ids-missing",
        calls(piece(0, None, "timeline", "{}"), piece(1, "", "timeline", "{}")),
        made(*[("timeline", "{}")] * 2),
    ),
    Case(
        "id-null",
        calls({"index": 0, "id": None, "function": {"name": "timeline", "arguments": "{}"}}),
        made(("timeline", "{}")),
    ),
    Case(
        "blank-id-and-name-later-P03A",
        calls(piece(0, "t1", "timeline", "{"), piece(0, "", "", '"entity_id":7}')),
        made(("timeline", '{"entity_id":7}')),
    ),
    Case(
        "name-repeated-P03B",
        calls(*(piece(0, "n", "neighbors", part) for part in ("{", '"a"', ":1}"))),
        made(("neighbors", '{"a":1}')),
    ),
    Case(
        "name-repeated-without-id-P03B",
        calls(*(piece(None, None, "neighbors", part) for part in ("{", '"a"', ":1}"))),
        made(("neighbors", '{"a":1}')),
    ),
    Case(
        "name-in-two-pieces-P03C",
        calls(piece(0, "f", "find_ent", ""), piece(0, None, "ities", ACME)),
        made(("find_entities", ACME)),
    ),
    Case(
        "name-in-pieces-with-hyphens",
        calls(piece(0, "f", "Find-", ""), piece(0, None, "Entities", ACME)),
        made(("Find-Entities", ACME)),
    ),
    Case(
        "name-growing",
        calls(piece(0, "f", "find", ""), piece(0, None, "find_ent", ""), piece(0, None, "find_entities", ACME)),
        made(("find_entities", ACME)),
    ),
    Case("name-unknown-repeated", calls(piece(0, "f", "look", "{"), piece(0, None, "look", "}")), made(("look", "{}"))),
    Case("name-only-later", calls(piece(0, "f"), piece(0, None, "timeline", "{}")), made(("timeline", "{}"))),
    Case(
        "name-after-arguments", calls(piece(0, "f", None, "{}"), piece(0, None, "timeline")), made(("timeline", "{}"))
    ),
    Case("nameless-is-none", calls(piece(0, "f", "", "{}"), piece(1, "g", "timeline", "{}")), made(("timeline", "{}"))),
    Case(
        "whole-call-repeated-at-the-end",
        calls(piece(0, "f", "timeline", '{"a"'), piece(0, arguments=":1}"), piece(0, "f", "timeline", '{"a":1}')),
        made(("timeline", '{"a":1}')),
    ),
    Case(
        "arguments-object-P04A",
        calls(piece(0, "f", "find_entities", {"name": "Acme", "limit": 3})),
        made(("find_entities", '{"name": "Acme", "limit": 3}')),
    ),
    Case("arguments-empty-P04B", calls(piece(0, "f", "timeline", "")), made(("timeline", ""))),
    Case(
        "arguments-null-P04D",
        calls({"index": 0, "id": "f", "function": {"name": "timeline", "arguments": None}}),
        made(("timeline", "")),
    ),
    Case("arguments-absent", calls(piece(0, "f", "timeline")), made(("timeline", ""))),
    Case(
        "arguments-cut-A07",
        calls(piece(0, "f", "timeline", '{"query":"caf\\u00')),
        made(("timeline", '{"query":"caf\\u00')),
    ),
    Case(
        "arguments-cut-within-an-escape-A07",
        calls(piece(0, "f", "timeline", '{"query":"caf\\u00'), piece(0, arguments='e9"}')),
        made(("timeline", '{"query":"caf\\u00e9"}')),
    ),
    Case("arguments-chinese-P13", calls(piece(0, "f", "timeline", '{"q":"鼓楼"}')), made(("timeline", '{"q":"鼓楼"}'))),
    Case(
        "arguments-with-nul-D01", calls(piece(0, "f", "timeline", '{"q":"a\x00b"}')), made(("timeline", '{"q":"ab"}'))
    ),
    Case(
        "arguments-with-half-a-pair-D01",
        calls(piece(0, "f", "timeline", '{"q":"?"}')).replace(b"?", b"\\ud83d"),
        made(("timeline", '{"q":"\ufffd"}')),
    ),
    Case(
        "arguments-with-a-pair-over-two-deltas",
        calls(piece(0, "f", "timeline", '{"q":"?'), piece(0, arguments='!"}'))
        .replace(b"?", b"\\ud83d")
        .replace(b"!", b"\\ude42"),
        made(("timeline", '{"q":"🙂"}')),
    ),
    Case(
        "beside-text",
        event({"content": "Let me look."}) + calls(piece(0, "f", "timeline", "{}")),
        Outcome("Let me look.", calls=(("timeline", "{}"),), finish=Finish.TOOL_CALLS),
    ),
    Case("thirty-in-one-delta", calls([piece(n, f"c{n}", *args) for n, args in enumerate(MANY)]), made(*MANY)),
    Case(
        "thirty-in-pieces",
        b"".join(
            [
                *(event({"tool_calls": [piece(n, f"c{n}", name, "")]}) for n, (name, _) in enumerate(MANY)),
                *(
                    event({"tool_calls": [piece(n, arguments=args)]})
                    for n, (_, args) in reversed(list(enumerate(MANY)))
                ),
                END,
            ]
        ),
        made(*MANY),
    ),
    Case(
        "function-call",
        event({"function_call": {"name": "timeline", "arguments": "{"}})
        + event({"function_call": {"arguments": "}"}})
        + event({}, "function_call")
        + DONE,
        made(("timeline", "{}")),
    ),
    Case(
        "function-call-mirrored",
        event(
            {"function_call": {"name": "timeline", "arguments": "{}"}, "tool_calls": [piece(0, "a", "timeline", "{}")]}
        )
        + END,
        made(("timeline", "{}")),
    ),
    Case(
        "entries-that-are-none", calls([]).replace(b"[]", b'[7, null, "x", {}]', 1), Outcome(finish=Finish.TOOL_CALLS)
    ),
    Case(
        "one-entry-instead-of-a-list",
        event({"tool_calls": piece(0, "a", "timeline", "{}")}) + END,
        made(("timeline", "{}")),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_every_shape_of_a_call_becomes_the_call_that_was_meant(
    case: Case, endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Over a real connection (P01, P03, P04)."""
    answer = await ask(model, endpoint.script(stream(case.data)))
    assert answer.outcome == case.expected


@pytest.mark.parametrize("case", [c for c in CASES if len(c.data) < 2000], ids=lambda case: case.id)
def test_every_shape_of_a_call_is_the_same_however_its_bytes_arrive(case: Case) -> None:
    """Each single cut of the bytes (P01, P03, P04, P13)."""
    for place in range(len(case.data)):
        assert read(cut_at(case.data, [place])) == case.expected, place


def test_ids_are_kept_where_they_can_be_and_minted_where_they_cannot() -> None:
    """Results are paired by id, so the provider's own stays (P01B, P03A)."""
    _, turn = read_turn(
        [calls(piece(0, "a", "timeline", "{}"), piece(1, "a", "timeline", "{}"), piece(2, "", "timeline", "{}"))]
    )
    assert turn is not None
    first, second, third = (made_call.id for made_call in turn.tool_calls)
    assert first == "a"
    assert second.startswith("call_")
    assert third.startswith("call_")
    assert len({first, second, third}) == 3
    _, again = read_turn([calls(piece(0, "", "timeline", "{}"))])
    assert again is not None
    assert again.tool_calls[0].id not in (second, third)


def test_unknown_fields_of_a_call_are_kept_with_their_origin() -> None:
    """A signature hangs on the call it came with, also when calls are told apart by id alone (A13, P01)."""
    signed = piece(0, "g1", "timeline", '{"entity_id":7}') | {
        "type": "function",
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    _, turn = read_turn([calls(signed, piece(0, "g2", "timeline", "{}"))])
    assert turn is not None
    assert turn.tool_calls == (
        ToolCall(
            "g1", "timeline", '{"entity_id":7}', {"extra_content": {"google": {"thought_signature": "c2ln"}}}, ORIGIN
        ),
        ToolCall("g2", "timeline", "{}"),
    )


async def test_calls_written_as_openai_does_arrive_whole(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """The plain shape, with text before it."""
    script = endpoint.script(call(("timeline", {"entity_id": 7}), ("neighbors", '{"entity": "北辰"}'), say="Looking."))
    answer = await ask(model, script)
    assert (answer.outcome.text, answer.outcome.calls) == (
        "Looking.",
        (("timeline", '{"entity_id": 7}'), ("neighbors", '{"entity": "北辰"}')),
    )


ENTRY = st.builds(
    piece,
    index=st.none() | st.integers(-1, 3) | st.sampled_from(["0", "x", True, 1.0]),
    call_id=st.none() | st.sampled_from(["", " ", "a", "b", 7]),
    name=st.none() | st.sampled_from(["", "timeline", "time", "line", "look", "find_", "entities", 3]),
    arguments=st.none() | st.sampled_from(["", "{", "}", "{}", '{"a":1}', "x", 7, True]) | st.just({"a": 1}),
)


@given(deltas=st.lists(st.lists(ENTRY, max_size=4), max_size=8))
def test_no_pieces_whatever_make_a_nameless_call_or_a_repeated_id(deltas: list[list[dict[str, object]]]) -> None:
    """Whatever a provider sends, what comes out can be stored and replayed (P03)."""
    outcome = read([calls(*deltas)], TOOL_NAMES)
    assert outcome.finish is Finish.TOOL_CALLS
    assert all(name.strip() for name, _ in outcome.calls)
    assert len(outcome.calls) <= sum(len(entries) for entries in deltas)
