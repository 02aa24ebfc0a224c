"""The evidence of facts: which passage holds a sentence, and passages for facts that lost theirs."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import text

from app.store.graph_write import GraphWrite

_RENEW = text("""
UPDATE facts f SET chunk_id = n.chunk_id, quote = coalesce(nullif(n.quote, ''), f.quote)
FROM unnest(CAST(:ids AS uuid[]), CAST(:chunk_ids AS uuid[]), CAST(:quotes AS text[])) AS n (id, chunk_id, quote)
WHERE f.id = n.id AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = f.chunk_id AND c.live)
""")

_LOCATE = text("""
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:places AS text[]), CAST(:quotes AS text[])) WITH ORDINALITY AS n (place, quote, n)
),
named AS (
    SELECT d.name AS place, c.id, c.position, c.text FROM documents d JOIN chunks c ON c.document_id = d.id
    WHERE d.base_id = CAST(:base_id AS uuid) AND d.name = ANY(CAST(:places AS text[])) AND c.live
    UNION ALL
    SELECT CAST(c.id AS text), c.id, c.position, c.text FROM chunks c
    WHERE c.base_id = CAST(:base_id AS uuid) AND c.id = ANY(CAST(:chunk_ids AS uuid[]))
),
held AS MATERIALIZED (SELECT place, id, position, regexp_replace(text, '\\s+', ' ', 'g') AS words FROM named),
found AS (
    SELECT DISTINCT ON (a.n) a.n, h.id FROM asked a JOIN held h ON h.place = a.place AND strpos(h.words, a.quote) > 0
    ORDER BY a.n, h.position
)
SELECT f.n, c.id FROM found f JOIN chunks c ON c.id = f.id FOR KEY SHARE OF c
""")

_KEEP = text("SELECT c.id FROM chunks c WHERE c.id = ANY(CAST(:ids AS uuid[])) FOR KEY SHARE")


async def keep(graph: GraphWrite, chunk_ids: Collection[str]) -> set[str]:
    """Those of the passages that are still there; until the transaction ends nobody can delete them."""
    rows = await graph.connection.execute(_KEEP, {"ids": sorted(chunk_ids)})
    return {str(row.id) for row in rows}


async def renew(graph: GraphWrite, evidence: Mapping[str, tuple[str, str]]) -> int:
    """Gives facts, by id, a passage and a quote where theirs was deleted or superseded; how many that were."""
    if not evidence:
        return 0
    values = {
        "ids": list(evidence),
        "chunk_ids": [chunk_id for chunk_id, _ in evidence.values()],
        "quotes": [quote for _, quote in evidence.values()],
    }
    return (await graph.connection.execute(_RENEW, values)).rowcount


async def locate(graph: GraphWrite, quotes: Sequence[tuple[str, str]], *, chunk_ids: Sequence[str]) -> list[str | None]:
    """The passage that holds each (document name or passage id, quote), white space aside; None where none does.

    The newest version of a document counts. `chunk_ids` are those of the names that are passage ids. Until the
    transaction ends nobody can delete what was found.
    """
    found: list[str | None] = [None] * len(quotes)
    if quotes:
        values = {
            "base_id": graph.base_id,
            "places": [place for place, _ in quotes],
            "quotes": [" ".join(quote.split()) for _, quote in quotes],
            "chunk_ids": list(chunk_ids),
        }
        for row in await graph.connection.execute(_LOCATE, values):
            found[row.n - 1] = str(row.id)
    return found
