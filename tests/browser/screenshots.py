"""Takes the README's screenshots anew: `python -m tests.browser.screenshots` writes docs/screenshots/*.png.

The sample base, the page as it is built now, and a model whose replies are scripted: the offline one writes no prose.
"""

import asyncio
import sys
from pathlib import Path

from playwright.async_api import Page, expect

import hatch_build
from tests.browser.chromium import person, running_chromium
from tests.browser.conversation import Conversation
from tests.browser.sample import ROOT, load_sample
from tests.harness.app import running_app
from tests.harness.postgres import running_postgres
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, call, text

FOLDER = ROOT / "docs" / "screenshots"
QUESTION = "Who sat on the board when Sam Altman was removed, and who did it?"
SEARCH = call(
    ("search_chunks", {"query": "board removed Sam Altman November 2023"}),
    say="I'll look for the board's members first.",
)
CONNECTION = call(
    ("paths_between", {"a": "Ilya Sutskever", "b": "Sam Altman"}), say="Six names. Now who took part in the decision:"
)
ANSWER = """The board of 17 November 2023 had **six members** [1]:

| Member | Role at OpenAI |
| --- | --- |
| Greg Brockman | chair, president |
| Sam Altman | chief executive |
| Ilya Sutskever | chief scientist |
| Adam D'Angelo, Tasha McCauley, Helen Toner | outside directors |

Sutskever and the three outside directors decided the removal; Altman and Brockman took no part in it [1].
"""


async def chat(page: Page) -> None:
    """A question, the steps where they happened, and its source open with the quoted sentence marked."""
    conversation = Conversation(page)
    await conversation.ask(QUESTION)
    await conversation.finished()
    await conversation.answer.locator("button.cite").last.click()
    await expect(conversation.panel.locator("mark")).to_contain_text("The four directors who decided the removal")


async def timeline(page: Page) -> None:
    """The facts of one person over time, one of them opened."""
    await page.get_by_role("link", name="Knowledge").click()
    await page.get_by_role("link", name="default").first.click()
    await page.get_by_role("link", name="Facts", exact=True).click()
    await page.get_by_role("searchbox", name="Search people, companies, things").fill("Anthropic")
    await page.get_by_role("link", name="Anthropic", exact=True).click()
    await page.locator(".timeline-item").filter(has_text="124 million").first.hover()
    await expect(page.locator(".timeline-card")).to_be_visible()


async def documents(page: Page) -> None:
    """What the base was given, and what became of it."""
    await page.get_by_role("navigation", name="Knowledge").get_by_role("link", name="default").click()
    await expect(page.locator(".docs-row").first).to_be_visible()


async def main(folder: Path = FOLDER) -> None:
    """Take them all."""
    hatch_build.build_page(ROOT)
    async with (
        running_postgres() as postgres,
        postgres.new_database() as url,
        ScriptedEndpoint() as endpoint,
        running_app(url, llm=endpoint.base_url, llm_model="your-model") as app,
        running_chromium() as chromium,
    ):
        endpoint.default = Script("", [SEARCH, CONNECTION, text(ANSWER)])
        await load_sample(app)
        async with person(chromium, app.url, reduced_motion="reduce") as visitor:
            page = await visitor.open("/")
            for view in (chat, timeline, documents):
                await view(page)
                path = folder / f"{view.__name__}.png"
                await page.screenshot(path=path)
                sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    asyncio.run(main())
