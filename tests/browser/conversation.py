"""The parts of a conversation's page by the names that a person, or a screen reader, finds them by."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from playwright.async_api import Locator, Page, expect

# Each state of the answer's text as it was painted, so that a test can look for what flickered by.
_RECORD = """
(article) => {
  const states = (globalThis.states = [globalThis.textOf(article)]);
  new MutationObserver(() => {
    const now = globalThis.textOf(article);
    if (now !== states.at(-1)) states.push(now);
  }).observe(article, { childList: true, subtree: true, characterData: true });
}
"""
_TEXT_OF = """
() => {
  globalThis.textOf = (article) => [...article.querySelectorAll(".prose")].map((p) => p.textContent).join("");
}
"""
# The order in which the reader meets text and steps.
_FLOW = """
(article) => [...article.children].flatMap((part) =>
  part.matches(".prose") ? [part.innerText.trim()] :
  part.matches("details.step") ? [`<${part.querySelector(".step-tool").textContent}>`] : [])
"""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One page that shows a conversation, or the place where one begins. Names are those of the English interface."""

    page: Page

    @property
    def field(self) -> Locator:
        return self.page.get_by_role("textbox", name="Your question")

    @property
    def answers(self) -> Locator:
        return self.page.get_by_role("article", name="Answer")

    @property
    def answer(self) -> Locator:
        """The last answer."""
        return self.answers.last

    @property
    def questions(self) -> Locator:
        return self.page.get_by_role("article", name="Question")

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def panel(self) -> Locator:
        return self.page.get_by_role("complementary", name="Sources")

    @property
    def progress(self) -> Locator:
        return self.page.locator(".progress")

    @property
    def thread(self) -> Locator:
        return self.page.get_by_role("region", name="Conversation", exact=True)

    async def ask(self, question: str) -> None:
        """Write it and press Enter."""
        await self.field.fill(question)
        await self.field.press("Enter")

    async def finished(self, count: int = 1) -> None:
        """Wait until that many answers are there and the last one is stored."""
        await expect(self.answers).to_have_count(count)
        await expect(self.answer).to_have_attribute("aria-busy", "false")
        await expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_visible()

    async def says(self, text: str) -> None:
        """Wait until the last answer holds the text."""
        await expect(self.answer).to_contain_text(text)

    async def flow(self) -> list[str]:
        """Stretches of the last answer's text and `<step>`s, in the order of reading."""
        found: list[str] = await self.answer.evaluate(_FLOW)
        return found

    async def record(self) -> None:
        """From here on keep every state of the last answer's text."""
        await self.page.evaluate(_TEXT_OF)
        await self.answer.evaluate(_RECORD)

    async def states(self) -> list[str]:
        """What `record` kept."""
        found: list[str] = await self.page.evaluate("globalThis.states")
        return found

    async def verdict(self) -> tuple[str, str]:
        """The last answer's evidence verdict: its code and what the reader is told."""
        shown = self.answer.locator(".evidence")
        return str(await shown.get_attribute("data-verdict")), await shown.inner_text()

    async def id(self) -> str:
        """The conversation's id, from the address."""
        await self.page.wait_for_url("**/c/*")
        return self.page.url.partition("#")[0].rpartition("/")[2]


def only_grew(states: list[str], whole: str) -> bool:
    """Whether a reader saw text being added at the end, and nothing twice or taken back, up to the whole."""
    seen = [state.strip() for state in states]  # a blank at the end is what its parser makes of an open block
    return seen[-1] == whole and all(b.startswith(a) for a, b in pairwise(seen))


async def box(locator: Locator) -> dict[str, Any]:
    """Where it is drawn."""
    found = await locator.bounding_box()
    assert found is not None
    return dict(found)
