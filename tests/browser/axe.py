"""axe-core in a page: which rules of accessibility what is shown now breaks."""

from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import Page

_SOURCE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"

# Evaluated and not added as a script: the page's policy lets in none but its own.
_RUN = """async (runOnly) => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"], runOnly });
  return violations.map(({ id, impact, nodes }) => ({
    id, impact, nodes: nodes.slice(0, 4).map((node) => `${node.target.join(" ")}: ${node.failureSummary}`),
  }));
}"""


@cache
def _source() -> str:
    return _SOURCE.read_text(encoding="utf-8")


EVERYTHING = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""axe's tags for the rules of WCAG 2.2 up to AA, and its own advice."""

COLOURS = ("color-contrast", "link-in-text-block")
"""The rules whose outcome another colour scheme can change."""


async def violations(page: Page, rules: tuple[str, ...] = EVERYTHING) -> list[dict[str, Any]]:
    """What is seriously wrong with the page as it stands: rule, impact, and up to four places with what to do."""
    if not await page.evaluate("'axe' in globalThis"):
        await page.evaluate(_source())
    found: list[dict[str, Any]] = await page.evaluate(_RUN, list(rules))
    return [one for one in found if one["impact"] in ("serious", "critical")]
