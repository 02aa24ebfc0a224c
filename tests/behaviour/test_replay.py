"""What the next turn is shown of the earlier ones. Source: DESIGN section 6, ORIGIN sections 3.1 and 6."""

from uuid import uuid4

from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text

SEARCH = call(("search_chunks", {"query": "board"}))
SKIP = call(("no_evidence_needed", {"reason": "rewording"}))
EMPTY = stream(event({"content": ""}), finish())


async def test_the_previous_exchange_stands_before_its_conclusion(app: App, endpoint: ScriptedEndpoint) -> None:
    """Question, call, result, answer, then the new question; the system prompt first."""
    first = endpoint.script(SEARCH, text("Four [1]."))
    turn = await app.ask(f"How many? {first}")
    second = endpoint.script(SEARCH, text("Still four [1]."))
    await app.ask(f"And then? {second}", conversation_id=turn.conversation_id)
    shown = second.messages(0)
    assert [m["role"] for m in shown] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert shown[3]["tool_call_id"] == shown[2]["tool_calls"][0]["id"]
    assert shown[4]["content"] == "Four [1]."
    assert shown[5]["content"] == f"And then? {second}"


async def test_only_the_latest_turns_exchange_is_replayed(app: App, endpoint: ScriptedEndpoint) -> None:
    """Earlier turns are shown as questions and answers."""
    conversation: str | None = None
    for _ in range(3):
        script = endpoint.script(SEARCH, text("Four [1]."))
        body = {"conversation_id": conversation} if conversation else {}
        conversation = (await app.ask(f"How many? {script}", **body)).conversation_id
    last = endpoint.script(SEARCH, text("Four [1]."))
    await app.ask(f"Sure? {last}", conversation_id=conversation)
    assert [m["role"] for m in last.messages(0)].count("tool") == 1


async def test_a_failed_question_without_answer_is_left_out(app: App, endpoint: ScriptedEndpoint) -> None:
    """Neither the question nor an empty answer is shown to the model."""
    turn = await app.ask(f"Say nothing {endpoint.script(EMPTY)}")
    after = endpoint.script(SEARCH, text("Four [1]."))
    await app.ask(f"How many? {after}", conversation_id=turn.conversation_id)
    assert [m["role"] for m in after.messages(0)] == ["system", "user"]


async def test_entities_met_earlier_stand_as_a_system_message_right_before_the_question(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """At most 20 lines `id | name | type`, not as a user message, which the model would answer (seed 003)."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    # planted, so that a name holds what could forge a field
    await app.execute(
        "UPDATE messages SET resolved = CAST(:found AS jsonb) WHERE id = CAST(:answer AS uuid)",
        found='[{"id": "e1", "name": "OpenAI", "type": "organisation"}, {"id": "e2", "name": "a|b", "type": null}]',
        answer=turn.done["message_id"],
    )
    after = endpoint.script(SEARCH, text("Four [1]."))
    await app.ask(f"And its board? {after}", conversation_id=turn.conversation_id)
    block, question = after.messages(0)[-2:]
    assert (block["role"], question["role"]) == ("system", "user")
    assert block["content"].split("\n")[1:] == ["e1 | OpenAI | organisation", "e2 | a/b | "]


async def test_a_rewording_keeps_the_previous_sources_for_the_numbers_it_repeats(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The sources frame comes before done, and they are stored with the answer (decision 0006)."""
    first = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four members remained [1].'))}")
    again = await app.ask(f"说短一点 {endpoint.script(SKIP, text('Four [1].'))}", conversation_id=first.conversation_id)
    assert again.sources == first.sources[:1]
    assert again.events.index("sources") > again.events.index("delta")
    assert (again.done["evidence"], again.done["cited"]) == ("cited", [1])
    assert (await app.messages(first.conversation_id))[-1]["sources"] == again.sources


async def test_a_rewording_that_cites_nothing_or_something_new_carries_no_sources(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """A number that the previous answer did not have rests on nothing."""
    first = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four members remained [1].'))}")
    for words in ("Four.", "Four [1][9]."):
        again = await app.ask(f"Shorter {endpoint.script(SKIP, text(words))}", conversation_id=first.conversation_id)
        assert again.sources == []
        assert again.done["evidence"] == "skipped"
        # the next rewording must see an answer with sources before it
        first = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")


async def test_a_failed_question_is_answered_in_place(app: App, endpoint: ScriptedEndpoint) -> None:
    """The question isn't doubled, its failed answer is replaced, and the model sees it once."""
    script = endpoint.script(EMPTY, EMPTY, SEARCH, text("Four [1]."))
    failed = await app.ask(f"How many? {script}")
    assert failed.error["code"] == "answer_empty"
    retried = await app.ask("", conversation_id=failed.conversation_id, retry_message_id=failed.start["message_id"])
    assert retried.answer == "Four [1]."
    assert retried.start["message_id"] == failed.start["message_id"]
    stored = await app.messages(failed.conversation_id)
    assert [(m["role"], m["content"]) for m in stored] == [("user", f"How many? {script}"), ("assistant", "Four [1].")]
    assert [m["role"] for m in script.messages(2)] == ["system", "user"]


async def test_only_the_last_unanswered_question_can_be_asked_again(app: App, endpoint: ScriptedEndpoint) -> None:
    """An answered one, an answer, an unknown one and one without its conversation are refused, and nothing changes."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    stored = await app.messages(turn.conversation_id)
    cases = [
        (
            {"conversation_id": turn.conversation_id, "retry_message_id": turn.start["message_id"]},
            409,
            "retry_answered",
        ),
        (
            {"conversation_id": turn.conversation_id, "retry_message_id": turn.done["message_id"]},
            422,
            "retry_not_question",
        ),
        ({"conversation_id": turn.conversation_id, "retry_message_id": str(uuid4())}, 404, "not_found"),
        ({"retry_message_id": turn.start["message_id"]}, 422, "retry_needs_conversation"),
    ]
    for body, status, code in cases:
        response = await app.http.post("/api/chat", json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert await app.messages(turn.conversation_id) == stored


async def test_history_is_the_last_twenty_messages_within_its_characters(app: App, endpoint: ScriptedEndpoint) -> None:
    """Whole turns go, oldest first; the question and the system prompt stay (case A09)."""
    long = "word " * 3_000
    conversation: str | None = None
    for _ in range(3):
        script = endpoint.script(SEARCH, text(f"{long}[1]", size=5_000))
        body = {"conversation_id": conversation} if conversation else {}
        conversation = (await app.ask(f"How many? {script}", **body)).conversation_id
    last = endpoint.script(SEARCH, text("Four [1]."))
    await app.ask(f"Sure? {last}", conversation_id=conversation)
    shown = last.messages(0)
    history = shown[1:-1]
    assert sum(len(m["content"]) for m in history) <= 32_000
    assert history[0]["role"] == "user"
    assert [m["role"] for m in history].count("assistant") >= 1
