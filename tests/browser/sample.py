"""The sample base, as `turnstream serve --load sample` puts it into a server."""

from pathlib import Path

from app.knowledge.bulk import ingest_paths
from app.knowledge.facts_import import import_file
from app.store import bases
from tests.harness.app import App

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample"


async def load_sample(app: App) -> None:
    """Its documents, then the facts that rest on them."""
    base = await bases.ensure_default(app.parts.database)
    async for result in ingest_paths(app.parts.ingest, base.id, (SAMPLE,)):
        assert result.error is None, result
    await import_file(app.parts.database, base.id, SAMPLE / "facts.jsonl")
