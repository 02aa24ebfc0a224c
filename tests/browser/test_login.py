"""The page asks who somebody is where the server wants to know: log in, stay so, log out. Issue 9 item 1."""

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from app.auth.secret import digest, fresh
from app.store import tokens
from app.store.ids import new_id
from app.store.tokens import NewToken
from tests.browser.axe import violations
from tests.browser.chromium import person
from tests.harness.app import App, running_app
from tests.harness.postgres import PostgresServer


@pytest.fixture(scope="module")
async def guarded(chromium: Browser, postgres: PostgresServer) -> AsyncGenerator[App, None]:
    """A server that takes tokens. Asks for the browser first: without one, no work."""
    async with postgres.new_database() as url, running_app(url, auth="token") as running:
        yield running


async def token(app: App) -> str:
    secret = fresh("ts")
    assert await tokens.add(
        app.parts.database, NewToken(new_id(), new_id(), "ann", "write", digest(secret), None, None)
    )
    return secret


async def test_somebody_logs_in_and_out_again(chromium: Browser, guarded: App) -> None:
    """A wrong token is told so; the right one opens the page and no script sees it; after logging out it is shut."""
    async with person(chromium, guarded.url) as visitor:
        page = await visitor.open("/")
        dialog = page.get_by_role("dialog", name="Log in")
        await expect(dialog).to_be_visible()
        field = dialog.get_by_label("Token")
        await expect(field).to_be_focused()
        assert await violations(page) == []
        await field.fill("nonsense")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("alert")).to_contain_text("doesn't accept this token")
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_visible()
        await field.fill(await token(guarded))
        await page.keyboard.press("Enter")
        await expect(dialog).to_have_count(0)
        await expect(page.get_by_role("navigation")).to_contain_text("ann")
        assert await page.evaluate("document.cookie") == ""
        await page.reload()
        await expect(page.get_by_role("button", name="Log out")).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(dialog).to_be_visible()


async def test_who_is_logged_out_in_the_middle_keeps_what_was_typed(chromium: Browser, guarded: App) -> None:
    """The login stands over the page and goes away again."""
    async with person(chromium, guarded.url) as visitor:
        page = await visitor.open("/")
        dialog = page.get_by_role("dialog", name="Log in")
        await dialog.get_by_label("Token").fill(await token(guarded))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("navigation")).to_contain_text("ann")
        question = page.get_by_role("textbox").last
        await question.fill("A long question")
        await page.context.clear_cookies()
        await page.keyboard.press("Enter")
        await expect(dialog).to_be_visible()
        await dialog.get_by_label("Token").fill(await token(guarded))
        await page.keyboard.press("Enter")
        await expect(dialog).to_have_count(0)
        typed = "document.body.innerText + [...document.querySelectorAll('textarea')].map((one) => one.value).join()"
        assert "A long question" in await page.evaluate(typed)
