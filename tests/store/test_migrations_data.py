"""Every revision is reached with rows in it, and left again: nothing that it can hold is lost. Source: issue 9 item 6."""

import asyncio
import json
from typing import Any

from sqlalchemy import URL

from app.store import migrate
from tests.harness.postgres import PostgresServer, run_sql

BASE = "01900000-0000-7000-8000-00000000000b"
SEEDS: dict[str, str] = {
    "0001": f"""
        INSERT INTO bases (id, name, description) VALUES ('{BASE}', 'kept', 'd');
        INSERT INTO documents (id, base_id, name, title, content_hash, media_type, encoding, size_bytes, version, status,
                               chunk_count, content)
        VALUES (u(1), '{BASE}', 'a.md', 'T', 'h1', 'text/markdown', 'utf-8', 9, 1, 'ready', 2, '缓存 text'),
               (u(2), '{BASE}', 'b.md', '', 'h2', '', NULL, 9, 1, 'pending', 0, NULL);
        INSERT INTO document_parts VALUES (u(2), 0, '\\x00ff');
        INSERT INTO chunks (id, document_id, base_id, position, heading_path, page, text, tsv, segmenter)
        VALUES (u(3), u(1), '{BASE}', 0, 'A › B', 1, 'text', '''缓存''\\:1', 1),
               (u(4), u(1), '{BASE}', 1, '', NULL, 'more', '', 1);
        INSERT INTO conversations (id, owner, base_id, title) VALUES (u(5), 'local', '{BASE}', 'Who?'), (u(6), 'ann', '{BASE}', '谁?');
        INSERT INTO messages (id, conversation_id, position, role, content, sources, tool_exchange, evidence, cited, usage)
        VALUES (u(7), u(5), 1, 'user', 'Who?', '[]', '[]', NULL, '[]', NULL),
               (u(8), u(5), 2, 'assistant', 'Ada [1].', '[{{"n": 1, "document_id": "x", "excerpt": "e"}}]',
                '[{{"role": "tool"}}]', 'cited', '[1]', '{{"requests": 2}}'),
               (u(9), u(6), 1, 'user', '谁?', '[]', '[]', NULL, '[]', NULL);
        INSERT INTO turns (id, conversation_id, question_id, owner, status, replica, lease_until, checkpoint, answer_id, last_seq)
        VALUES (u(10), u(5), u(7), 'local', 'done', 'r1', now(), NULL, u(8), 9),
               (u(11), u(6), u(9), 'ann', 'running', 'r1', now(), '{{"content": "So far", "steps": [1]}}', NULL, NULL)""",
    "0002": f"""
        INSERT INTO entities (id, base_id, name, name_key, aliases, search_text, type)
        VALUES (u(20), '{BASE}', 'Ada', 'ada', '["A"]', E'ada\\na', 'person'), (u(21), '{BASE}', 'Bob', 'bob', '[]', 'bob', '');
        INSERT INTO facts (id, base_id, subject_id, predicate, object_id, value, valid_from, valid_from_precision, chunk_id,
                           quote, origin, fact_key)
        VALUES (u(22), '{BASE}', u(20), 'knows', u(21), NULL, '2020-01-01', 'year', u(3), 'text', 'extraction', 'k1'),
               (u(23), '{BASE}', u(20), 'is', NULL, 'kind', NULL, 'unknown', NULL, 'said elsewhere', 'import', 'k2');
        INSERT INTO proposals (id, base_id, fact, sentence, chunk_id, origin, proposed_by, turn_id, idempotency_key)
        VALUES (u(24), '{BASE}', '{{"subject": "Ada"}}', 'text', u(3), 'extraction', 'm', NULL, 'i1'),
               (u(25), '{BASE}', '{{}}', 'Keep this.', NULL, 'remember', 'ann', u(11), 'i2')""",
    "0003": """
        INSERT INTO embedding_models (id, name, dimensions, ready_at) VALUES (u(30), 'm', 3, now());
        INSERT INTO embeddings VALUES (u(3), u(30), '{1,2.5,-3}'), (u(4), u(30), NULL)""",
    "0004": f"""
        INSERT INTO extractions (chunk_id, base_id, model, proposed, error_code, error)
        VALUES (u(3), '{BASE}', 'm', 1, NULL, NULL), (u(4), '{BASE}', 'm', 0, 'internal', 'why');
        SET LOCAL search_path TO procrastinate, public;
        INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES ('extraction', 'extract_chunk', '{{"chunk_id": "x"}}')""",
    "0005": "UPDATE turns SET deaths = 1, attempt = 2 WHERE id = u(11)",
    "0006": """
        INSERT INTO harness_runs (id, script, plan) VALUES (u(60), 's', '{"arms": []}');
        INSERT INTO harness_turns (run_id, model, prompt, repeat, conversation, turn, record)
        VALUES (u(60), 'm', 1, 1, 'c', 1, '{"answer": "A"}')""",
    "0007": f"""
        INSERT INTO tokens (id, name, owner, scope, every_base, secret_hash) VALUES (u(70), 't', 'ann', 'read', false, '\\x01');
        INSERT INTO token_bases VALUES (u(70), '{BASE}');
        INSERT INTO members (base_id, owner, role, added_by) VALUES ('{BASE}', 'bob', 'write', 'ann');
        INSERT INTO sessions (secret_hash, token_id, owner, scope, expires_at) VALUES ('\\x02', u(70), 'ann', 'read', now());
        UPDATE turns SET may_write = false WHERE id = u(11)""",
    "0008": "INSERT INTO audit (who, action, object) VALUES ('ann', 'base.deleted', 'x')",
    "0009": "PERFORM count_running_turns('ann')",
    "0010": "INSERT INTO turn_pieces SELECT id, attempt, 0, 'left over' FROM turns WHERE status <> 'running' LIMIT 1",
}
"""What a running version of each revision leaves, in what that revision brought; `u(n)` is an id."""

CHANGING = ("0005", "0007", "0008", "0010")
"""Revisions that change tables of earlier ones; the others only bring tables."""

IDS = """
CREATE FUNCTION u(n int) RETURNS uuid LANGUAGE sql IMMUTABLE
AS $$ SELECT CAST('01900000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid) $$
"""

TABLES = """
SELECT string_agg(schemaname || '.' || tablename, ' ' ORDER BY schemaname, tablename) FROM pg_tables
WHERE schemaname IN ('public', 'procrastinate') AND tablename <> 'alembic_version'
"""

Rows = dict[str, list[dict[str, Any]]]


async def stored(url: URL) -> Rows:
    """Every row of every table that has some, by column."""
    each = ", ".join(
        f"'{name}', (SELECT json_agg(to_jsonb(t) ORDER BY CAST(to_jsonb(t) AS text)) FROM {name} t)"
        for name in str(await run_sql(url, TABLES)).split()
    )
    found: Rows = json.loads(str(await run_sql(url, f"SELECT CAST(json_build_object({each}) AS text)")))
    return {name: rows for name, rows in found.items() if rows}


def moved(rows: Rows, revision: str) -> Rows:
    """The rows as a revision is to hold them: 0005 gave the text of running turns a column, 0010 a table of its own."""
    if revision < "0005":
        return rows
    out: Rows = json.loads(json.dumps(rows))
    for turn in out.get("public.turns", []):
        checkpoint: dict[str, Any] | None = turn["checkpoint"]
        if checkpoint is not None and "content" in checkpoint:
            turn["draft"] = checkpoint.pop("content")
        if revision >= "0010" and (text := turn.pop("draft", None)) is not None:
            piece = {"turn_id": turn["id"], "attempt": turn.get("attempt", 0), "at": 0, "content": text}
            out.setdefault("public.turn_pieces", []).append(piece)
    return out


def carried(before: Rows, after: Rows) -> None:
    """Every row of before is there after, with the same in each of its columns."""
    for table, rows in before.items():
        for row in rows:
            kept = [{column: other[column] for column in row} for other in after[table]]
            assert row in kept, (table, row)


async def test_rows_of_every_revision_survive_the_way_up_down_and_up_again(postgres: PostgresServer) -> None:
    """Each step up keeps all rows; each step back gives exactly what was there before it; and from the first revision
    all goes up again at once.
    """
    revisions = sorted(SEEDS)
    assert set(revisions) == migrate.revisions()
    at: dict[str, Rows] = {}
    async with postgres.new_database(migrated=False) as url:
        await run_sql(url, IDS)
        before: Rows = {}
        for revision in revisions:
            await asyncio.to_thread(migrate.upgrade, url, revision)
            carried(moved(before, revision), await stored(url))
            await run_sql(url, f"DO $seed$ BEGIN {SEEDS[revision]}; END $seed$")
            at[revision] = before = await stored(url)
        for lower, upper in zip(revisions[-2::-1], revisions[:0:-1], strict=True):
            await asyncio.to_thread(migrate.downgrade, url, lower)
            assert await stored(url) == at[lower], f"{upper} to {lower}"
            if upper in CHANGING:
                await asyncio.to_thread(migrate.upgrade, url, upper)
                carried(moved(at[lower], upper), await stored(url))
                await asyncio.to_thread(migrate.downgrade, url, lower)
        assert await stored(url) == at["0001"]
        await asyncio.to_thread(migrate.upgrade, url)
        carried(moved(at["0001"], migrate.head()), await stored(url))


async def test_what_earlier_versions_left_of_deleted_passages_is_removed(postgres: PostgresServer) -> None:
    """Of extraction's, which always had one; what others said without a passage stays."""
    async with postgres.new_database(migrated=False) as url:
        await run_sql(url, IDS)
        await asyncio.to_thread(migrate.upgrade, url, "0007")
        for revision in ("0001", "0002"):
            await run_sql(url, f"DO $seed$ BEGIN {SEEDS[revision]}; END $seed$")
        await run_sql(url, "DELETE FROM documents")
        assert await run_sql(url, "SELECT count(*) FROM facts WHERE quote <> ''") == 2
        await asyncio.to_thread(migrate.upgrade, url)
        assert await run_sql(url, "SELECT string_agg(quote, ',' ORDER BY id) FROM facts") == ",said elsewhere"
        assert await run_sql(url, "SELECT string_agg(sentence, ',') FROM proposals") == "Keep this."
