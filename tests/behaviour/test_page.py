"""The page as the server serves it: index and assets, their headers, what is refused, and what the API keeps."""

import gzip
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.api import page, refusals
from tests.harness.app import App

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[httpx.AsyncClient, None]:
    """The page's routes alone, over the files of a folder."""
    app = FastAPI()
    refusals.install(app)
    app.include_router(page.router("a-model", "It <answers>.", "http://127.0.0.1:8000/", folder=folder))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
        yield client


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A built page, with a secret beside it and files in it that aren't the page's."""
    folder = tmp_path / "_page"
    assets = folder / "assets"
    assets.mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>the page</title>", encoding="utf-8")
    (folder / "sources.sha256").write_text("0" * 64, encoding="ascii")
    (assets / "index-AbC_12-x.js").write_text("export {};", encoding="utf-8")
    (assets / "index-9.css").write_text("a {}", encoding="utf-8")
    (assets / "icon-1.svg").write_text("<svg/>", encoding="utf-8")
    (assets / "notes.txt").write_text("not the page's", encoding="utf-8")
    (tmp_path / "secret.js").write_text("never shown", encoding="utf-8")
    return folder


@pytest.mark.parametrize("path", ["/", "/c/0199", "/bases", "/bases/default/facts/e1", "/settings", "/settings/model"])
async def test_the_pages_own_addresses_answer_with_it(app: App, path: str) -> None:
    """So that reload, a permalink and a bookmark work; it is asked for anew each time."""
    response = await app.http.get(path)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<div id="app">' in response.text
    assert response.headers["cache-control"] == "no-cache"
    assert (await app.http.head(path)).status_code == 200
    again = await app.http.get(path, headers={"if-none-match": response.headers["etag"]})
    assert again.headers["etag"] == response.headers["etag"]


async def test_the_page_may_load_from_this_server_only(app: App) -> None:
    """No inline script or style, no eval, no other host, no frame around it; on every file of the page."""
    index = await app.http.get("/")
    names = re.findall(r'(?:src|href)="([^"]+)"', index.text)
    assert len(names) >= 3
    for address in ["/", *names]:
        assert re.fullmatch(r"/|/assets/[\w.-]+", address)
        response = await app.http.get(address)
        assert response.status_code == 200
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
    assert re.search(r"<script(?![^>]* src=)|<style|\son\w+=|style=", index.text) is None


async def test_what_is_named_by_its_hash_is_kept_for_good(built: Path) -> None:
    """With the type that browsers insist on, whatever the machine's own table says."""
    async with serving(built) as http:
        for name, kind in [
            ("index-AbC_12-x.js", "text/javascript; charset=utf-8"),
            ("index-9.css", "text/css; charset=utf-8"),
            ("icon-1.svg", "image/svg+xml"),
        ]:
            response = await http.get(f"/assets/{name}")
            assert (response.status_code, response.headers["content-type"]) == (200, kind)
            assert response.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../index.html",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/%2e%2e/secret.js",
        "/assets/..%2f..%2fsecret.js",
        "/assets/..%5c..%5csecret.js",
        "/assets/%2fetc%2fpasswd",
        "/assets/.js",
        "/assets/notes.txt",
        "/assets/index-AbC_12-x.js%00.css",
        "/assets/index-AbC_12-x.js/",
        "/assets/missing-1.js",
        "/assets/",
        "/sources.sha256",
    ],
)
async def test_nothing_but_the_pages_files_is_served(built: Path, path: str) -> None:
    """Neither a file outside its folder, nor one in it that the page doesn't load."""
    async with serving(built) as http:
        response = await http.get(httpx.URL(f"http://page{path}"))
    assert response.status_code in (404, 307)
    assert "never shown" not in response.text
    assert response.headers.get("content-type") in ("application/json", None)


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/c", "/c/1/2", "/cc/1", "/assets", "/v2", "/bases.html", "/index.html"]
)
async def test_other_addresses_stay_refusals(app: App, path: str) -> None:
    """The page never answers for the API: a wrong address is a 404 with a code."""
    response = await app.http.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


async def test_the_api_is_where_it_was(app: App) -> None:
    """Its routes answer as JSON also beside the page's."""
    for path in ("/healthz", "/readyz", "/openapi.json", "/v1/models", "/api/conversations", "/api/bases/default"):
        response = await app.http.get(path)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    paths = (await app.http.get("/openapi.json")).json()["paths"]
    assert not any(path.startswith(("/c/", "/assets", "/settings")) or path == "/" for path in paths)


async def test_without_a_built_page_the_server_says_how_to_get_it(tmp_path: Path) -> None:
    """Not an error of the server: it says what to run, what answers, and how to ask meanwhile; then it is found."""
    folder = tmp_path / "_page"
    async with serving(folder) as http:
        response = await http.get("/")
        assert response.status_code == 503
        assert "make setup" in response.text
        assert "a-model" in response.text
        assert "It &lt;answers&gt;." in response.text
        assert "curl -N http://127.0.0.1:8000/api/chat" in response.text
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["content-security-policy"] == POLICY
        folder.mkdir()
        (folder / "index.html").write_text("<!doctype html><title>built</title>", encoding="utf-8")
        assert (await http.get("/c/1")).text == "<!doctype html><title>built</title>"


async def test_the_page_is_light(app: App) -> None:
    """Issue 6: under 120 KB of JavaScript as a server compresses it."""
    scripts = (page.PAGE / "assets").glob("*.js")
    assert 0 < sum(len(gzip.compress(script.read_bytes(), 6)) for script in scripts) < 120_000
