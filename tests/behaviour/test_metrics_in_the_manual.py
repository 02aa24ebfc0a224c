"""What the manual says of /metrics is what is scraped."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.harness.app import App

PAGE = Path(__file__).parents[2] / "docs" / "manual" / "10-troubleshooting.md"
ROW = re.compile(r"^\| `(turnstream_\w+)` \| (\w+) \|(.*?)\|", re.MULTILINE)
BESIDE = ("_bucket", "_sum", "_count", "_created")
"""What a histogram, or the library by itself, adds to a name."""


async def test_the_manual_lists_every_metric_with_its_kind_and_labels(app: App) -> None:
    """After a turn and a take-over, so that all of them have a sample."""
    await app.ask("你好")
    app.parts.metrics.taken_over(goes_on=True)
    scraped: dict[str, tuple[str, frozenset[str]]] = {}
    for family in text_string_to_metric_families((await app.http.get("/metrics")).text):
        for sample in family.samples:
            name = sample.name
            if family.type == "histogram":
                name = name.removesuffix("_bucket")
            if not name.endswith(BESIDE):
                scraped[name] = (family.type, frozenset(sample.labels) - {"le"})
    told = {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(PAGE.read_text(encoding="utf-8"))
    }
    assert told == scraped
