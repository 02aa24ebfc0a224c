"""What a whole turn looks like on the wire and in the database. Source: DESIGN sections 5 and 8."""

from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

SEARCH = call(("search_chunks", {"query": "board"}))


async def test_an_answer_is_streamed_cited_and_stored_as_it_was_streamed(app: App, endpoint: ScriptedEndpoint) -> None:
    """Steps, sources, text and verdict of the stored answer are the frames' data."""
    script = endpoint.script(SEARCH, text("Four members remained [1]."))
    turn = await app.ask(f"How many remained? {script}")
    assert turn.events[:3] == ["conversation", "step", "sources"]
    assert set(turn.events[3:-1]) == {"delta"}
    assert turn.answer == "Four members remained [1]."
    assert (turn.done["evidence"], turn.done["cited"], turn.done["stopped"]) == ("cited", [1], False)
    question, answer = await app.messages(turn.conversation_id)
    assert (question["id"], question["role"]) == (turn.start["message_id"], "user")
    assert question["content"] == f"How many remained? {script}"
    assert answer["id"] == turn.done["message_id"]
    assert answer["content"] == turn.answer
    assert answer["steps"] == turn.of("step")
    assert answer["sources"] == turn.sources
    assert answer["cited"] == [1]
    assert answer["evidence"] == "cited"
    assert answer["usage"] == turn.done["usage"]
    assert answer["model"] == "scripted"
    assert [m["role"] for m in answer["tool_exchange"]] == ["assistant", "tool"]
    assert answer["tool_exchange"][1]["content"].startswith("OK: ")


async def test_a_step_says_what_was_looked_for_and_what_came_of_it(app: App, endpoint: ScriptedEndpoint) -> None:
    """The step frame carries every field of the contract."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    (step,) = turn.of("step")
    assert step.keys() == {"n", "at", "call_id", "tool", "kind", "label", "detail", "status", "ms"}
    assert (step["tool"], step["kind"], step["label"], step["status"]) == ("search_chunks", "search", "board", "ok")
    assert step["ms"] >= 0


async def test_a_source_is_a_passage_of_the_document_that_was_put_in(app: App, endpoint: ScriptedEndpoint) -> None:
    """A source names its document and shows an excerpt; the model was shown the same passage under its number."""
    script = endpoint.script(SEARCH, text("Four [1]."))
    turn = await app.ask(f"How many? {script}")
    source = turn.sources[0]
    assert source.keys() == {"n", "kind", "id", "document_id", "title", "locator", "excerpt"}
    assert "November 2023" in source["excerpt"]
    observation = script.messages(1)[-1]["content"]
    assert observation.startswith("OK: ")
    assert "[1] " in observation
    assert "\n| On 17 November 2023" in observation


async def test_the_usage_of_all_requests_is_added_up(app: App, endpoint: ScriptedEndpoint) -> None:
    """Two requests of 11 and 7 tokens each make 22 and 14."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    usage = turn.done["usage"]
    assert (usage["requests"], usage["prompt_tokens"], usage["completion_tokens"]) == (2, 22, 14)
    assert usage["truncated"] is False


async def test_an_answer_cut_by_the_token_limit_is_kept_and_marked(app: App, endpoint: ScriptedEndpoint) -> None:
    """finish_reason length is never silently complete."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Cut by the token limit [1]', reason='length'))}")
    assert turn.answer == "Cut by the token limit [1]"
    assert turn.done["usage"]["truncated"] is True


async def test_numbers_that_point_to_no_source_do_not_count_as_cited(app: App, endpoint: ScriptedEndpoint) -> None:
    """An invented number leaves the answer uncited; the text is shown as it was written."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('It is said [42] and [0].'))}")
    assert (turn.done["evidence"], turn.done["cited"]) == ("uncited", [])
    assert turn.answer == "It is said [42] and [0]."


async def test_full_width_brackets_count_as_citations(app: App, endpoint: ScriptedEndpoint) -> None:
    """Chinese answers cite with full-width brackets."""
    turn = await app.ask(f"还剩几人？ {endpoint.script(SEARCH, text('四人【1】。'))}")
    assert (turn.done["evidence"], turn.done["cited"]) == ("cited", [1])


async def test_chinese_words_of_two_characters_are_found(app: App, endpoint: ScriptedEndpoint) -> None:
    """A search for a Chinese word finds the passage that holds it (case K01)."""
    script = endpoint.script(call(("search_chunks", {"query": "罢免"})), text("董事会 [1]。"))
    turn = await app.ask(f"谁被罢免？ {script}")
    assert [s["status"] for s in turn.of("step")] == ["ok"]
    assert "罢免" in turn.sources[0]["excerpt"]


async def test_a_search_without_hits_is_empty_and_not_an_error(app: App, endpoint: ScriptedEndpoint) -> None:
    """EMPTY is what the model reads, empty what the reader sees; the turn rests on nothing."""
    script = endpoint.script(call(("search_chunks", {"query": "zzqxv"})), text("Nothing was found."))
    turn = await app.ask(f"What is zzqxv? {script}")
    assert [s["status"] for s in turn.of("step")] == ["empty"]
    assert turn.done["evidence"] == "none"
    assert script.messages(1)[-1]["content"].startswith("EMPTY: ")
