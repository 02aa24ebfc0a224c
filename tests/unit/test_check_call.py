"""Which calls run, as what, and what the model is told of those that don't."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from app.llm.model import ToolCall
from app.tools.registry import Registry
from app.tools.tool import Step, Tool, ToolContext, ToolResult
from app.turn.check_call import Past, check, resolve, signature
from app.turn.hooks import BeforeCall, Refuse, Run


class FindEntities(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    limit: int = 5


class PathsBetween(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ids: list[str]
    weight: float = 1.0


class ListBases(BaseModel):
    model_config = ConfigDict(extra="allow")


async def run(context: ToolContext, args: BaseModel) -> ToolResult:
    """Never called here: a check runs nothing."""
    del context
    return ToolResult("ok", repr(args), Step("test", "test"))


CATALOGUE = Registry(
    [
        Tool("find_entities", "", FindEntities, run, "entity"),
        Tool("paths_between", "", PathsBetween, run, "path"),
        Tool("list_bases", "", ListBases, run, "list"),
    ]
)
TOOLS = "Tools: find_entities, list_bases, paths_between."


def judge(name: str, arguments: str, *, cut_off: bool = False, past: tuple[Past, ...] = ()) -> BeforeCall:
    return check(ToolCall("c1", name, arguments), cut_off=cut_off, catalogue=CATALOGUE, past=past)


def runs(name: str, arguments: dict[str, object]) -> Run:
    return Run(ToolCall("c1", name, json.dumps(arguments, ensure_ascii=False)), name, arguments)


def refused(name: str, reason: str, detail: str) -> Refuse:
    return Refuse(ToolCall("c1", name, "{}"), reason, detail)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("find_entities", '{"name": "Acme"}', runs("find_entities", {"name": "Acme"})),
        ("find_entities", ' {"name":"北京","limit":3}\n', runs("find_entities", {"name": "北京", "limit": 3})),
        ("find_entities", '{"name": "caf\\u00e9"}', runs("find_entities", {"name": "café"})),
        ("find_entities", '{"name": "a\\u0000b\\ud83d"}', runs("find_entities", {"name": "ab\ufffd"})),
        ("list_bases", "", runs("list_bases", {})),
        ("list_bases", " \n", runs("list_bases", {})),
        ("list_bases", "null", runs("list_bases", {})),
        ("list_bases", "{}", runs("list_bases", {})),
        ("paths_between", '{"ids": ["a"]}', runs("paths_between", {"ids": ["a"]})),
    ],
)
def test_a_call_that_says_what_it_wants_runs_with_clean_arguments(name: str, arguments: str, expected: Run) -> None:
    """Cases A07 (joined pieces give café) and D01 (NUL and half a pair in an argument)."""
    assert judge(name, arguments) == expected


@pytest.mark.parametrize(
    ("emitted", "resolved"),
    [
        ("find_entities", "find_entities"),
        ("Find_Entities", "find_entities"),
        ("find-entities", "find_entities"),
        ("find entities", "find_entities"),
        ("findEntities", "find_entities"),
        (" find_entities\n", "find_entities"),
        ("functions.find_entities", "find_entities"),
        ("tools.find_entities", "find_entities"),
        ("find.entities", "find_entities"),
        ("find_entity", None),
        ("findentities", None),
        ("list_entities", None),
        ("", None),
        ("   ", None),
        ("функция", None),
    ],
)
def test_a_name_is_folded_but_never_guessed(emitted: str, resolved: str | None) -> None:
    """Case A06: case, hyphen, space and a known wrapper are folded; a near name is not run."""
    assert resolve(emitted, CATALOGUE.names()) == resolved


def test_a_name_that_two_tools_could_mean_is_none_of_them() -> None:
    """Folding never picks between tools."""
    assert resolve("a-b", ["A_b", "a_b"]) is None
    assert resolve("a_b", ["A_b", "a_b"]) == "a_b"


def test_a_folded_name_is_run_and_stored_as_the_registered_one() -> None:
    """Replay teaches the right spelling."""
    assert judge("Find-Entities", '{"name": "x"}') == runs("find_entities", {"name": "x"})


def test_what_an_endpoint_wants_echoed_stays_with_the_call() -> None:
    """Case A13: unknown fields of a call are kept, run or refused."""
    extra = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    for arguments, stored in (('{"name":"x"}', '{"name": "x"}'), ("{", "{}")):
        call = ToolCall("g1", "find-entities", arguments, extra, "http://e/m")
        decision = check(call, cut_off=False, catalogue=CATALOGUE, past=())
        kept = decision.call if isinstance(decision, Run) else decision.stored
        assert kept == ToolCall("g1", "find_entities", stored, extra, "http://e/m")


@pytest.mark.parametrize(
    ("emitted", "stored", "nearest"),
    [
        ("list_entities", "list_entities", " Nearest: find_entities"),
        ("search the web", "search_the_web", ""),
        ("x" * 300, "x" * 64, ""),
        ("", "unknown_tool", ""),
        ("搜索", "unknown_tool", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_tools_there_are(emitted: str, stored: str, nearest: str) -> None:
    """Case A06: the pair is kept under a name that every provider takes back."""
    decision = judge(emitted, '{"q": "x"}')
    assert isinstance(decision, Refuse)
    assert decision == refused(stored, decision.reason, "unknown tool")
    assert decision.reason.startswith(f"There is no tool {stored}, so nothing was run. {TOOLS}{nearest}")


INCOMPLETE = "The arguments are not one complete JSON object, so the call was not run. Make it again with one."


def test_arguments_that_nest_deep_are_refused_and_never_raise() -> None:
    """How deep the parser goes differs between Pythons; the schema refuses what it still takes (case A07)."""
    for depth in (600, 5_000):
        assert isinstance(judge("find_entities", '{"name": ' + "[" * depth + "]" * depth + "}"), Refuse)


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "[]",
        '"x"',
        "12",
        "true",
        '{"name": "x"',
        '{"name": "caf\\u00',
        '{"name": "x"} {"name": "y"}',
        "{'name': 'x'}",
        '{"name": NaN}',
        '{"name": "x", "limit": Infinity}',
        '{"name": "x", "limit": 1e999}',
        '{"name": "x", "limit": ' + "9" * 5000 + "}",
        '{"name": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_arguments_that_are_not_one_json_object_are_refused(arguments: str) -> None:
    """Case A07: parsed once, strictly; nothing is repaired, and nothing a model writes raises."""
    assert judge("find_entities", arguments) == refused("find_entities", INCOMPLETE, "bad arguments")


@pytest.mark.parametrize(
    ("name", "arguments"), [("find_entities", '{"query":"caf\\u00'), ("find_entities", ""), ("list_bases", "")]
)
def test_arguments_cut_by_the_token_limit_are_refused_as_cut(name: str, arguments: str) -> None:
    """Case A07: with finish_reason length the model is told that it was cut, not that its JSON is wrong."""
    reason = "The arguments were cut off by the token limit, so the call was not run. Make it again, shorter."
    assert judge(name, arguments, cut_off=True) == refused(name, reason, "arguments cut off")


def test_a_complete_call_of_a_cut_model_turn_runs() -> None:
    """Case A07: the limit may have come after the call was whole."""
    assert judge("find_entities", '{"name":"x"}', cut_off=True) == runs("find_entities", {"name": "x"})


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("find_entities", "{}", "name"),
        ("find_entities", "null", "name"),
        ("find_entities", '{"name": null}', "name"),
        ("find_entities", '{"name": ""}', "name"),
        ("find_entities", '{"name": " \\t\\u3000"}', "name"),
        ("find_entities", '{"limit": 3}', "name"),
        ("paths_between", '{"ids": []}', "ids"),
    ],
)
def test_a_missing_or_empty_required_argument_is_refused_by_name(name: str, arguments: str, key: str) -> None:
    """A blank required argument is an error, never EMPTY: EMPTY makes a model say that nothing exists."""
    reason = f"`{key}` is missing or empty, so {name} was not run. Call it again with a value for `{key}`."
    assert judge(name, arguments) == refused(name, reason, f"missing {key}")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"name": 5}', "`name`: Input should be a valid string"),
        ('{"name": "x", "limit": "many"}', "`limit`: Input should be a valid integer"),
        ('{"name": "x", "zz": 1}', "`zz`: Extra inputs are not permitted"),
    ],
)
def test_arguments_that_the_schema_refuses_are_refused_with_its_words(arguments: str, told: str) -> None:
    """The tool's own schema is the only judge."""
    decision = judge("find_entities", arguments)
    assert isinstance(decision, Refuse)
    assert decision == refused("find_entities", decision.reason, "bad arguments")
    assert decision.reason.startswith(f"The arguments don't fit: {told}")
    assert decision.reason.endswith("find_entities was not run. Call it again with arguments that fit.")


SAME = signature("find_entities", {"name": "zzz", "limit": 3})
FAILED = "This exact call of find_entities already failed in this turn and was not run again. Change it, or answer."
RAN_TWICE = (
    "This exact call of find_entities already ran 2 times in this turn and was not run again. "
    "Its result stands above: use it, change the call, or answer."
)


@pytest.mark.parametrize("arguments", ['{"name":"zzz","limit":3}', '{ "limit" : 3, "name" : "zzz" }'])
@pytest.mark.parametrize(
    ("past", "reason"),
    [
        ((Past(SAME, "error"),), FAILED),
        ((Past(SAME, "ok"), Past(SAME, "error")), FAILED),
        ((Past(SAME, "empty"), Past(SAME, "empty")), RAN_TWICE),
        ((Past(SAME, "ok"), Past(SAME, "ok")), RAN_TWICE),
        ((Past(SAME, None), Past(SAME, None)), RAN_TWICE),
    ],
)
def test_a_call_that_failed_or_ran_twice_is_refused(arguments: str, past: tuple[Past, ...], reason: str) -> None:
    """Case A03: whatever the order of keys and the spacing; the stored call keeps its arguments."""
    decision = judge("find_entities", arguments, past=past)
    assert isinstance(decision, Refuse)
    assert decision == Refuse(decision.stored, reason, "repeated call", repeated=True)
    assert json.loads(decision.stored.arguments) == {"name": "zzz", "limit": 3}


@pytest.mark.parametrize(
    "past",
    [
        (),
        (Past(SAME, "ok"),),
        (Past(SAME, "empty"),),
        (Past(SAME, None),),
        (Past(signature("find_entities", {"name": "zzz"}), "error"),),
        (Past(signature("paths_between", {"name": "zzz", "limit": 3}), "error"),),
    ],
)
def test_a_second_identical_call_and_a_changed_one_run(past: tuple[Past, ...]) -> None:
    """Case A03: legitimate polling survives."""
    arguments: dict[str, object] = {"name": "zzz", "limit": 3}
    assert judge("find_entities", json.dumps(arguments), past=past) == runs("find_entities", arguments)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_the_identity_of_a_call_ignores_the_order_of_keys(arguments: dict[str, object]) -> None:
    """Case A03: canonical JSON."""
    turned = dict(reversed(arguments.items()))
    assert signature("t", arguments) == signature("t", turned)
    assert json.loads(signature("t", arguments).removeprefix("t ")) == arguments


@given(st.text(), st.text() | JSON.map(json.dumps), st.booleans())
def test_whatever_a_model_writes_what_is_stored_can_be_sent_back(name: str, arguments: str, cut: bool) -> None:
    """Cases A06 and A07: a name every provider takes, and arguments that are one JSON object."""
    decision = judge(name, arguments, cut_off=cut)
    stored = decision.call if isinstance(decision, Run) else decision.stored
    assert stored.id == "c1"
    assert 1 <= len(stored.name) <= 64
    assert set(stored.name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert isinstance(json.loads(stored.arguments), dict)
