"""The registry and the toolbox: whatever a tool does, the turn gets an observation."""

import asyncio
import types
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field
from structlog.testing import capture_logs

from app.llm.model import ToolSpec
from app.store.engine import Database
from app.tools import registry as registry_module
from app.tools.observation import Observed
from app.tools.registry import Registry, json_schema, load
from app.tools.tool import Citations, Entity, NumberedSource, Source, Step, Tool, ToolContext, ToolResult
from app.turn.hooks import CallOutcome
from app.turn.toolbox import Toolbox

UNREACHED = Database("postgresql://nobody@127.0.0.1:1/none")
"""Never connected: no tool of this file asks it anything."""

Run = Callable[[ToolContext, Any], Awaitable[Any]]


class Args(BaseModel):
    """What to look for."""

    model_config = ConfigDict(extra="forbid")
    query: str = Field(description="What to look for.")
    limit: int = Field(5, ge=1, le=10, description="How many at most.")


def context() -> ToolContext:
    return ToolContext(UNREACHED, "base", "Who?", Citations())


def registry(run: Run, *, timeout_s: float = 20) -> Registry:
    return Registry([Tool("lookup", "Look.", Args, run, "search", timeout_s=timeout_s)])


async def dispatch(run: Run, arguments: dict[str, object] | None = None, *, timeout_s: float = 20) -> Observed:
    return await registry(run, timeout_s=timeout_s).dispatch("lookup", arguments or {"query": "x"}, context())


def returning(result: object) -> Run:
    async def run(context: ToolContext, args: Args) -> object:
        return result

    return run


def raising(error: BaseException) -> Run:
    async def run(context: ToolContext, args: Args) -> ToolResult:
        raise error

    return run


STEP = Step("search", "x", "1 passage")


class Note(BaseModel):
    text: str
    tags: list[dict[str, str]] = []
    weight: float = 1.0


def only_its_text(args: Note) -> list[str]:
    return [args.text]


@pytest.mark.parametrize(
    ("writes", "own_words", "written"),
    [(False, None, None), (True, None, ("a", "b", "c")), (True, only_its_text, ("a",))],
)
def test_what_a_call_would_write_is_every_text_in_it_unless_the_tool_says_which(
    writes: bool, own_words: Callable[[Note], list[str]] | None, written: tuple[str, ...] | None
) -> None:
    """Issue 9 item 3: of a third party's tool too; a tool that only reads writes nothing."""
    run = returning(ToolResult("ok", "kept", STEP))
    tools = Registry([Tool("keep_note", "Keep.", Note, run, "note", writes=writes, own_words=own_words)])
    assert tools.written("keep_note", {"text": "a", "tags": [{"x": "b"}, {"y": "c"}]}) == written


async def test_a_result_is_stamped_and_handed_on() -> None:
    """O1 and O2: status and text, step, entities and structured content."""
    entity = Entity("e1", "OpenAI", "organization")
    observed = await dispatch(returning(ToolResult("ok", "found", STEP, (entity,), {"n": 1})))
    assert observed == Observed("ok", "OK: found", STEP, (entity,), {"n": 1})


async def test_a_tool_gets_its_arguments_as_its_model_and_its_context() -> None:
    """Arguments are validated and defaults filled in before a tool runs."""
    seen: list[tuple[str, Args]] = []

    async def run(context: ToolContext, args: Args) -> ToolResult:
        seen.append((context.question, args))
        return ToolResult("empty", "no hits", STEP)

    assert (await dispatch(run)).text == "EMPTY: no hits"
    assert seen == [("Who?", Args(query="x", limit=5))]


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_ok_without_text_is_empty(text: str) -> None:
    """O4 and DESIGN 7: a reading tool that says nothing found nothing."""
    observed = await dispatch(returning(ToolResult("ok", text, STEP)))
    assert observed == Observed("empty", "EMPTY: nothing was found.", STEP, (), {})


@pytest.mark.parametrize(
    "result",
    [
        None,
        "OK: found",
        b"found",
        ["found"],
        {"status": "ok", "text": "found"},
        0,
        ToolResult(cast("Any", "OK"), "found", STEP),
        ToolResult(cast("Any", None), "found", STEP),
        ToolResult(cast("Any", ["ok"]), "found", STEP),
        ToolResult("ok", cast("Any", None), STEP),
        ToolResult("ok", cast("Any", 0), STEP),
        ToolResult("ok", cast("Any", b"found"), STEP),
        ToolResult("ok", "found", cast("Any", None)),
        ToolResult("ok", "found", STEP, cast("Any", None)),
        ToolResult("ok", "found", STEP, (), cast("Any", [])),
        ToolResult("ok", "found", STEP, cast("Any", ("OpenAI",))),
        ToolResult("ok", "found", Step("search", cast("Any", 5))),
    ],
)
async def test_a_result_of_the_wrong_shape_is_an_error(result: object) -> None:
    """O5: unknown status, missing text, anything else than a ToolResult."""
    with capture_logs() as logs:
        observed = await dispatch(returning(result))
    text = "ERROR: lookup returned something that can't be read. This says nothing about the base."
    assert observed == Observed("error", text, Step("search", "lookup"), (), {})
    assert [log["event"] for log in logs] == ["tool_returned_wrong_shape"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("password=hunter2"),
        KeyError("/srv/secret"),
        TimeoutError("SELECT secret"),
        ExceptionGroup("secret", [OSError("hunter2")]),
        SystemExit(3),
        RecursionError("secret"),
    ],
)
async def test_an_exception_shows_the_model_a_safe_sentence_and_a_reference(error: BaseException) -> None:
    """O8: text, path and statement go to the log under the reference, never to the model or the reader."""
    with capture_logs() as logs:
        observed = await dispatch(raising(error))
    (log,) = logs
    reference = log["reference"]
    text = f"ERROR: lookup is not available right now (reference {reference}). This says nothing about the base."
    assert observed == Observed("error", text, Step("search", "lookup", f"failed, {reference}"), (), {})
    assert (log["event"], log["tool"], log["log_level"], log["exc_info"]) == ("tool_failed", "lookup", "error", True)


async def test_a_tool_that_hangs_is_ended_after_its_time() -> None:
    """O9: ERROR, stating the seconds."""
    ended = asyncio.Event()

    async def run(context: ToolContext, args: Args) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    observed = await dispatch(run, timeout_s=0.01)
    text = "ERROR: lookup did not finish within 0.01 s. Ask for something narrower, or do without."
    assert observed == Observed("error", text, Step("search", "lookup", "timed out"), (), {})
    assert ended.is_set()


async def test_cancellation_comes_out_as_it_is() -> None:
    """O8: a stop is never turned into an observation."""
    entered = asyncio.Event()

    async def run(context: ToolContext, args: Args) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.create_task(dispatch(run))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_arguments_that_do_not_fit_never_reach_the_tool() -> None:
    """O20: the same dispatch serves doors that check nothing themselves."""
    observed = await dispatch(raising(AssertionError()), {"query": 5, "zz": 1})
    text = (
        "ERROR: The arguments don't fit: `query`: Input should be a valid string; `zz`: Extra inputs are not permitted."
    )
    assert observed == Observed("error", text, Step("refused", "lookup", "bad arguments"), (), {})


async def test_a_cancelled_helper_of_a_tool_is_the_tools_failure() -> None:
    """Nobody stopped the turn: what the tool waited for was cancelled."""

    async def run(context: ToolContext, args: Args) -> ToolResult:
        waiting = asyncio.ensure_future(asyncio.Event().wait())
        waiting.cancel()
        await waiting
        raise AssertionError

    with capture_logs() as logs:
        observed = await dispatch(run)
    assert (observed.status, observed.step.label) == ("error", "lookup")
    assert [log["event"] for log in logs] == ["tool_failed"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("OK: found", "OK: found"),
        ("ERROR: found", "OK: found"),
        ("ok: EMPTY: found", "OK: found"),
        ("found\nERROR: in the middle", "OK: found\nERROR: in the middle"),
    ],
)
async def test_a_tool_that_writes_its_own_prefix_has_it_taken_away(text: str, shown: str) -> None:
    """O3: the status decides, and a prefix stands once."""
    observed = await dispatch(returning(ToolResult("ok", text, STEP)))
    assert (observed.status, observed.text) == ("ok", shown)


async def test_a_megabyte_is_cut_everywhere() -> None:
    """O11: text at a line's end and said so, the step's words, the entities; structured content that long is none."""
    long = "a line of text\n" * 70_000
    entities = tuple(Entity(str(n), "x", None) for n in range(10_000))
    step = Step("search", long, long)
    with capture_logs() as logs:
        observed = await dispatch(returning(ToolResult("ok", long, step, entities, {"text": long})))
    assert observed.text.startswith("OK: a line of text\n")
    assert observed.text.endswith(f"of {len(long) + 3} characters are shown; ask for something narrower]")
    assert len(observed.text) <= 24_000
    assert (len(observed.step.label), len(observed.step.detail)) == (300, 300)
    assert len(observed.resolved) == 50
    assert observed.structured == {}
    assert [log["event"] for log in logs] == ["tool_structured_too_long"]


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
async def test_structured_content_that_is_no_json_is_left_out(value: object) -> None:
    """The text says what there is."""
    with capture_logs() as logs:
        observed = await dispatch(returning(ToolResult("ok", "found", STEP, (), {"value": value})))
    assert observed == Observed("ok", "OK: found", STEP, (), {})
    assert [log["event"] for log in logs] == ["tool_structured_is_no_json"]


def test_a_refusal_is_an_error_observation() -> None:
    """O2: calls that were not run end in the same place."""
    observed = registry(returning(None)).refused("nope", "There is no tool nope.", "unknown tool")
    assert observed == Observed(
        "error", "ERROR: There is no tool nope.", Step("refused", "nope", "unknown tool"), (), {}
    )


def test_two_tools_of_one_name_stop_the_start() -> None:
    """First come is silent shadowing."""
    tool = Tool("lookup", "Look.", Args, returning(None), "search")
    with pytest.raises(ValueError, match="two tools are named lookup"):
        Registry([tool, tool])


def test_tools_are_offered_sorted_with_a_closed_schema() -> None:
    """D14: whatever the order they were found in."""
    tools = [Tool(name, name, Args, returning(None), "search") for name in ("b_tool", "a_tool", "c_tool")]
    both = Registry(tools)
    assert list(both.names()) == [o.name for o in both.chat_tools()] == ["a_tool", "b_tool", "c_tool"]
    assert both.required("a_tool") == ("query",)
    assert both.chat_tools()[0].parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {
                "type": "integer",
                "description": "How many at most.",
                "default": 5,
                "minimum": 1,
                "maximum": 10,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


class Inner(BaseModel):
    title: str


class Titled(BaseModel):
    title: str
    inner: Inner


def test_a_field_called_title_stays_though_titles_go() -> None:
    """Titles are pydantic's, a property of that name is the tool's."""
    schema = json_schema(Titled)
    assert schema == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "inner": {"$ref": "#/$defs/Inner"}},
        "required": ["title", "inner"],
        "additionalProperties": False,
        "$defs": {"Inner": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}},
    }


async def test_a_writing_tool_is_for_those_who_may_write() -> None:
    """Offered, named and run only for them; a reading one is for everybody."""
    ran = returning(ToolResult("ok", "x", STEP))
    tools = Registry(
        [Tool(name, name, Args, ran, "search", writes=name == "write_it") for name in ("read_it", "write_it")]
    )
    for may_write, names in ((True, ["read_it", "write_it"]), (False, ["read_it"])):
        toolbox = Toolbox(tools, replace(context(), may_write=may_write))
        assert [spec.name for spec in toolbox.specs()] == list(toolbox.names()) == names
        assert list(tools.names(may_write=may_write)) == names
        outcome = await toolbox.run("write_it", {"query": "x"})
        assert outcome.status == ("ok" if may_write else "error")


def test_a_tool_that_is_not_async_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocking tool would stop every turn of the process."""

    def run(context: ToolContext, args: Args) -> ToolResult:
        return ToolResult("ok", "x", STEP)

    blocking = types.ModuleType("blocking")
    blocking.__dict__["TOOL"] = Tool("blocking", "x", Args, cast("Any", run), "search")
    monkeypatch.setattr(registry_module, "first_party", lambda: [blocking.TOOL])
    with pytest.raises(TypeError, match="blocking: run must be an async function"):
        load()


def cite(context: ToolContext, chunk: str) -> int:
    return context.citations.cite(Source("chunk", chunk, "d1", "board.md", "The board", "…"))


async def test_a_toolbox_keeps_what_the_turn_s_tools_have_brought() -> None:
    """DESIGN 5: a passage keeps its number across calls, an entity is kept as it was first met."""

    async def run(context: ToolContext, args: Args) -> ToolResult:
        numbers = [cite(context, chunk) for chunk in args.query.split()]
        found = (Entity("e1", args.query, None), Entity(args.query, "other", None))
        return ToolResult("ok", f"{numbers}", STEP, found)

    both = registry(run)
    toolbox = Toolbox(both, context())
    assert toolbox.specs() == (ToolSpec("lookup", "Look.", both.chat_tools()[0].parameters),)
    outcomes = [await toolbox.run("lookup", {"query": query}) for query in ("a b", "b c")]
    assert outcomes == [
        CallOutcome("ok", f"OK: {numbers}", "search", "x", "1 passage") for numbers in ("[1, 2]", "[2, 3]")
    ]
    assert toolbox.sources == tuple(
        NumberedSource(n, "chunk", chunk, "d1", "board.md", "The board", "…") for n, chunk in enumerate("abc", 1)
    )
    assert toolbox.resolved == (Entity("e1", "a b", None), Entity("a b", "other", None), Entity("b c", "other", None))
    assert not toolbox.skipped


@pytest.mark.parametrize(("status", "skipped"), [("ok", True), ("error", False)])
async def test_only_a_terminal_that_ran_marks_the_turn_as_skipped(status: Any, skipped: bool) -> None:
    """DESIGN 5: `skipped` rests on a recorded call."""
    terminal = Tool("skip", "Skip.", Args, returning(ToolResult(status, "x", STEP)), "skip", terminal=True)
    toolbox = Toolbox(Registry([terminal]), context())
    await toolbox.run("skip", {"query": "greeting"})
    assert (toolbox.skipped, toolbox.is_terminal("skip"), toolbox.is_terminal("other")) == (skipped, True, False)
    refused = CallOutcome("error", "ERROR: because", "refused", "skip", "why")
    assert toolbox.refused("skip", "because", "why") == refused


async def test_the_terminal_records_its_reason() -> None:
    """Seed 001: a skip is a recorded, reasoned decision."""
    observed = await load().dispatch("no_evidence_needed", {"reason": " a greeting \n"}, context())
    step = Step("skip", "a greeting", "answered without the base")
    assert observed == Observed("ok", "OK: Understood. Answer the user directly now.", step, (), {})
