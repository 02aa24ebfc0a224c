"""Deleted means gone: a word that nobody else uses is looked for in every column of every table. Decision 0021."""

import asyncio
import random
import string
from typing import Any

from app.live.memory import MemoryLog
from app.store import excerpts, jobs, proposals
from app.store.jobs import Outcome
from app.store.proposals import NewProposal
from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text

COLUMNS = """
SELECT table_schema AS schema, table_name AS table, column_name AS column, data_type AS type
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema IN ('public', 'procrastinate') AND table_type = 'BASE TABLE'
"""


def word() -> str:
    """A word of its own, which no stemmer changes."""
    return "zqx" + "".join(random.choices(string.ascii_lowercase.replace("s", ""), k=12)) + "q"


async def holding(app: App, marker: str) -> set[str]:
    """Every `table.column` that holds the word: texts, JSON, search vectors, arrays, and bytes."""
    found: set[str] = set()
    for where in await app.rows(COLUMNS):
        column = f'"{where.column}"'
        held = (
            f"position(convert_to(:marker, 'UTF8') IN {column}) > 0"
            if where.type == "bytea"
            else f"strpos(lower(CAST({column} AS text)), :marker) > 0"
        )
        table = f'"{where.schema}"."{where.table}"'
        [row] = await app.rows(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {held}) AS there", marker=marker)
        if row.there:
            found.add(f"{where.table}.{where.column}")
    return found


async def passages(app: App, document_id: str) -> list[dict[str, Any]]:
    listed = await app.http.get(f"/api/bases/default/documents/{document_id}/chunks")
    return listed.json()["passages"]


async def test_a_deleted_document_leaves_its_words_nowhere_but_in_what_was_said(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """Its passages, vectors, proposals, quotes and excerpts go, of earlier versions too. Answers stay as they were given,
    and facts that a person nodded to, without their quote.
    """
    marker = word()
    sentence = f"The {marker} was built by Ada."
    await app.upload(f"{marker}.md", f"# Old\n\nOnce the {marker} was only planned.\n".encode())
    document_id = await app.upload(f"{marker}.md", f"# {marker}\n\n{sentence}\n".encode())
    chunk = (await passages(app, document_id))[0]
    await app.execute(
        "INSERT INTO embedding_models (id, name, dimensions) VALUES (gen_random_uuid(), :name, 3)",
        name=f"m-{document_id}",
    )
    await app.execute(
        "INSERT INTO embeddings SELECT CAST(:c AS uuid), id, '{1,2,3}' FROM embedding_models WHERE name = :name",
        c=chunk["id"],
        name=f"m-{document_id}",
    )
    base_id = str((await app.rows("SELECT id FROM bases WHERE name = 'default'"))[0].id)
    read = [
        NewProposal(
            {"subject": "Ada", "predicate": predicate, "value": value, "quote": sentence},
            sentence,
            "extraction",
            "extraction",
            f"{chunk['id']} {predicate}",
            chunk["id"],
        )
        for predicate, value in (("built", "a thing"), ("owns", marker), ("sold", marker))
    ]
    assert await jobs.settle(app.parts.database, base_id, chunk["id"], Outcome("model", read))
    async with app.parts.database.begin() as connection:
        built, _, sold = await proposals.add(connection, base_id, read)
    nodded = await app.http.post(f"/api/bases/default/proposals/{built.id}/accept")
    assert (nodded.status_code, nodded.json()["sentence"]) == (200, sentence)
    await app.http.post(f"/api/bases/default/proposals/{sold.id}/refuse")
    search = call(("search_chunks", {"query": f"{marker} Ada"}))
    script = endpoint.script(search, text(f"It is the {marker} [1]."))
    turn = await app.ask(f"What did Ada build? {script}")
    assert marker in turn.sources[0]["excerpt"]
    everywhere = await holding(app, marker)
    assert everywhere >= {
        "documents.name",
        "documents.content",
        "chunks.text",
        "chunks.tsv",
        "facts.quote",
        "proposals.sentence",
        "proposals.fact",
        "messages.content",
        "messages.sources",
        "messages.tool_exchange",
        "messages.steps",
    }

    assert (await app.http.delete(f"/api/bases/default/documents/{document_id}")).status_code == 204

    said = {"messages.content", "messages.steps"}  # the answer, and what the model looked for
    assert await holding(app, marker) == said
    left = await app.rows("SELECT count(*) AS n FROM embeddings WHERE chunk_id = CAST(:c AS uuid)", c=chunk["id"])
    assert left[0].n == 0
    [fact] = (await app.http.get("/api/bases/default/facts", params={"subject": "Ada"})).json()["facts"]
    assert (fact["predicate"], fact["quote"], fact["evidence"]) == ("built", "", None)
    answer = (await app.messages(turn.conversation_id))[-1]
    assert answer["tool_exchange"] == []
    first = answer["sources"][0]
    assert (first["n"], first["document_id"], first["title"], first["excerpt"]) == (
        1,
        document_id,
        excerpts.DELETED_TITLE,
        "",
    )
    again = await app.ask(f"And then? {endpoint.script(text('Nothing.'))}", conversation_id=turn.conversation_id)
    assert again.done["evidence"] == "none"


async def test_a_turn_that_had_read_a_document_before_it_went_stores_nothing_of_it_for_long(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """Its answer is stored later than the deletion; what it holds of the document goes with the next look."""
    marker, gate = word(), asyncio.Event()
    document_id = await app.upload(f"late-{marker}.md", f"# Late\n\nThe {marker} is late.\n".encode())
    search = call(("search_chunks", {"query": marker}))
    script = endpoint.script(search, stream(event({"content": "It"}), gate, event({"content": " is [1]."}), finish()))
    asking = asyncio.create_task(app.ask(f"What? {script}"))
    await script.request(1)
    assert (await app.http.delete(f"/api/bases/default/documents/{document_id}")).status_code == 204
    gate.set()
    turn = await asking
    assert "messages.sources" in await holding(app, marker)
    await app.parts.keeping.look()
    assert await holding(app, marker) == {"messages.steps"}
    assert (await app.messages(turn.conversation_id))[-1]["content"] == "It is [1]."


async def test_a_deleted_conversation_leaves_nothing(app: App, endpoint: ScriptedEndpoint) -> None:
    """Question, title, steps, answer, the running turn's checkpoint, and its live log at once: no minute is waited."""
    marker, gate = word(), asyncio.Event()
    search = call(("search_chunks", {"query": marker}))
    first = await app.ask(f"{marker}? {endpoint.script(search, text(f'No {marker}.'))}")
    address = f"/api/conversations/{first.conversation_id}"
    await app.http.patch(address, json={"title": f"About {marker}"})
    script = endpoint.script(search, stream(event({"content": f"{marker} "}), gate, finish()))
    asking = asyncio.create_task(app.ask(f"And {marker}? {script}", conversation_id=first.conversation_id))
    await script.request(1)
    everywhere = {"conversations.title", "messages.content", "messages.steps", "messages.tool_exchange"}
    assert await holding(app, marker) >= everywhere
    assert isinstance(app.parts.live, MemoryLog)
    assert app.parts.live.find(first.turn_id) is not None
    assert (await app.http.delete(address)).status_code == 204
    gate.set()
    running = await asking
    assert await holding(app, marker) == set()
    assert app.parts.live.find(first.turn_id) is None
    assert app.parts.live.find(running.turn_id) is None


async def test_a_remembered_sentence_outlives_its_conversation(app: App, endpoint: ScriptedEndpoint) -> None:
    """The one exception: it was said to be kept, as the base's own."""
    marker = word()
    remember = call(("remember", {"text": f"The {marker} is blue.", "facts": []}))
    turn = await app.ask(f"Remember that the {marker} is blue. {endpoint.script(remember, text('It waits.'))}")
    assert (await app.http.delete(f"/api/conversations/{turn.conversation_id}")).status_code == 204
    assert await holding(app, marker) == {"proposals.sentence"}


async def test_a_deleted_base_leaves_nothing_but_its_name_in_the_audit(app: App, endpoint: ScriptedEndpoint) -> None:
    """Documents, graph, proposals and conversations; names of bases are no secret of theirs."""
    marker = word()
    await app.http.post("/api/bases", json={"name": marker, "description": f"On {marker}."})
    await app.upload("a.md", f"# A\n\nThe {marker} again.\n".encode(), base=marker)
    row = {"subject": marker, "predicate": "is", "value": marker, "evidence": "a.md", "quote": f"The {marker} again."}
    await app.http.post(f"/api/bases/{marker}/facts", json=row)
    search = call(("search_chunks", {"query": marker}))
    turn = await app.ask(f"{marker}? {endpoint.script(search, text(f'{marker} [1].'))}", base=marker)
    assert {"entities.name", "entities.search_text", "facts.value", "chunks.tsv"} <= await holding(app, marker)
    assert (await app.http.delete(f"/api/bases/{marker}")).status_code == 204
    assert await holding(app, marker) == {"audit.base"}
    assert isinstance(app.parts.live, MemoryLog)
    assert app.parts.live.find(turn.turn_id) is None
