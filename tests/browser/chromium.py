"""Debian's Chromium, driven by Playwright: one browser for a session, a person with a profile of their own for each test.

async with running_chromium() as browser, person(browser, app.url) as somebody:
    page = await somebody.open("/")
# leaving fails where a page of theirs ran what it shouldn't, broke the policy or spoke to another host
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    WebError,
    async_playwright,
)

from tests.harness.programs import installed

PATIENCE_MS = 10_000
"""How long a locator is waited for. Nothing takes so long unless it's broken."""

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# `ran` is what payloads call; a payload that runs in any other way breaks the policy, and that is told too.
_WATCH = """
globalThis.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((task) => task.duration)))
  .observe({ type: "longtask" });
document.addEventListener("securitypolicyviolation", (event) =>
  told(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
for (const name of ["alert", "confirm", "prompt"]) globalThis[name] = () => told(`${name}()`);
"""


class Person:
    """Somebody with a browser profile: cookies, locks and channels are shared by their pages, with nobody else's."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.wrong: list[str] = []
        """What pages did that no page of ours may do."""
        self.requests: list[Request] = []
        context.set_default_timeout(PATIENCE_MS)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("dialog", self._on_dialog)
        context.on("request", self._on_request)

    async def open(self, path: str = "/") -> Page:
        """A new tab at a path of the server's."""
        page = await self.context.new_page()
        await page.goto(f"{self.url}{path}")
        return page

    def asked(self, method: str, ending: str) -> list[Request]:
        """The requests so far of that method whose path ends so."""
        return [r for r in self.requests if r.method == method and r.url.partition("?")[0].endswith(ending)]

    async def watch(self) -> None:
        """Be told what runs in any page, also in those that are gone by the time one looks."""

        def told(_source: object, what: object) -> None:
            self.wrong.append(str(what))

        context: Any = self.context  # Playwright says nothing about the callback's type
        await context.expose_binding("told", told)
        await context.expose_binding("ran", told)
        await self.context.add_init_script(_WATCH)

    def _on_console(self, message: ConsoleMessage) -> None:
        # a refusal and a broken line are told by the browser itself; what they mean is each test's business
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.wrong.append(f"console: {message.text}")

    def _on_error(self, error: WebError) -> None:
        self.wrong.append(f"uncaught: {error.error}")

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((f"{self.url}/", "blob:")):
            self.wrong.append(f"request: {request.url}")


@asynccontextmanager
async def running_chromium() -> AsyncGenerator[Browser, None]:
    """The browser; skipped, or failed under CI, where it is not installed."""
    path = installed("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def person(
    browser: Browser,
    url: str,
    *,
    locale: str = "en-GB",
    color_scheme: Literal["light", "dark"] = "light",
    **options: Any,
) -> AsyncGenerator[Person, None]:
    """Somebody who visits the server at `url`; further options are Playwright's for a context."""
    options.setdefault("viewport", {"width": 1280, "height": 800})
    context = await browser.new_context(
        locale=locale, timezone_id="UTC", color_scheme=color_scheme, service_workers="block", **options
    )
    visitor = Person(context, url)
    await visitor.watch()
    try:
        yield visitor
    finally:
        await context.close()
    assert visitor.wrong == []
