"""No address that a user gives is ever asked for, and no redirect of one that the operator gave is followed.

Source: issue 9 item 2, decision 0020. Redirects of an OpenID issuer: tests/unit/test_auth_keys.py.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager

import pytest

from app.errors import EmbeddingFailed
from app.knowledge.read import ReadDocument, read
from app.llm.capabilities import Capabilities
from app.llm.embeddings import EmbeddingConfig, Embeddings
from app.llm.endpoint import EndpointConfig
from app.llm.failures import Rejected
from app.llm.openai_chat import OpenAIChat
from tests.harness.files import pdf, zipped
from tests.unit.llm.reading import ask

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
SAID = "Four members of the board remained after the others had left it in November."


class Peer:
    """An HTTP server that notes who comes, and answers as it is told."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.lines: list[str] = []
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.lines.append(head.splitlines()[0])
        writer.write(self.answer.encode())
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["Peer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self


@pytest.fixture
async def inside() -> AsyncGenerator[Peer]:
    """What only the server can reach, and a stranger would like to. It must never be asked."""
    async with Peer("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret").listening() as peer:
        yield peer


@pytest.fixture(autouse=True)
def no_proxy() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)
        yield


def word_with_links(url: str) -> bytes:
    """A picture that lies elsewhere, a hyperlink, and an entity of another place."""
    picture = (
        f'<w:drawing><wp:inline xmlns:wp="{DRAWING}/wordprocessingDrawing"><a:graphic xmlns:a="{DRAWING}/main">'
        f'<a:graphicData><pic:pic xmlns:pic="{DRAWING}/picture"><pic:blipFill><a:blip r:link="p1" xmlns:r="{OFFICE}"/>'
        "</pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing>"
    )
    document = (
        f'<!DOCTYPE w:document SYSTEM "{url}/word.dtd"><w:document xmlns:w="{WORD}" xmlns:r="{OFFICE}"><w:body>'
        f'<w:p><w:r><w:t>{SAID}</w:t></w:r><w:r>{picture}</w:r><w:hyperlink r:id="h1"><w:r><w:t>there</w:t></w:r>'
        "</w:hyperlink></w:p></w:body></w:document>"
    )
    relations = (
        f'<Relationships xmlns="{PACKAGE}">'
        f'<Relationship Id="p1" Type="{OFFICE}/image" Target="{url}/p.png" TargetMode="External"/>'
        f'<Relationship Id="h1" Type="{OFFICE}/hyperlink" Target="{url}/h" TargetMode="External"/></Relationships>'
    )
    core = f'<!DOCTYPE x [<!ENTITY e SYSTEM "{url}/core.txt">]><x xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>&e;</dc:title></x>'
    whole = {"word/document.xml": document, "word/_rels/document.xml.rels": relations, "docProps/core.xml": core}
    root = f'<Relationships xmlns="{PACKAGE}"><Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>'
    return zipped({"_rels/.rels": root, **whole})


def page_with_links(url: str) -> bytes:
    return (
        f'<!DOCTYPE html SYSTEM "{url}/html.dtd" [<!ENTITY e SYSTEM "{url}/e.txt">]><html><head><base href="{url}/">'
        f'<meta http-equiv="refresh" content="0; url={url}/m"><link rel="stylesheet" href="{url}/c.css">'
        f'<link rel="canonical" href="{url}/canonical"><script src="{url}/s.js"></script></head><body><article>'
        f'<p>{SAID} &e;</p><img src="{url}/i.png"><iframe src="{url}/f"></iframe><object data="{url}/o"></object>'
        f'<a href="{url}/a">there</a></article></body></html>'
    ).encode()


FILES: dict[str, Callable[[str], bytes]] = {
    "a.docx": word_with_links,
    "a.html": page_with_links,
    "a.xhtml": lambda url: (
        b'<?xml version="1.0"?><?xml-stylesheet href="' + url.encode() + b'"?>' + page_with_links(url)
    ),
    "a.md": lambda url: f"# T\n\n{SAID} ![i]({url}/i.png) <img src={url}/j.png> <{url}/auto>\n".encode(),
    "a.pdf": lambda url: pdf([f"{SAID}\n{url}/plain"]).replace(
        b"/Type /Catalog", f"/Type /Catalog /OpenAction <</S/URI/URI({url}/open)>>".encode()
    ),
}


@pytest.mark.parametrize("name", FILES)
async def test_what_a_file_points_at_is_not_fetched(name: str, inside: Peer) -> None:
    """Pictures, styles, frames, entities, links: the file is read for its text alone."""
    found = await asyncio.to_thread(read, FILES[name](inside.url), name=name)
    assert isinstance(found, ReadDocument)
    assert SAID in " ".join(found.content.split())
    assert "secret" not in found.content + found.title
    assert inside.lines == []


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_no_redirect_of_a_configured_endpoint_is_followed(status: str, inside: Peer) -> None:
    """An endpoint that was taken over can't send the server, its prompts and its key somewhere else."""
    elsewhere = f"HTTP/1.1 {status}\r\nLocation: {inside.url}/v1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with Peer(elsewhere).listening() as outside:
        config = EndpointConfig(f"{outside.url}/v1", "scripted", "key-for-tests")
        model = OpenAIChat(config, Capabilities())
        embeddings = Embeddings.open(EmbeddingConfig(config, retries=0))
        try:
            answer = await ask(model)
            with pytest.raises(EmbeddingFailed):
                await embeddings.embed(["x"], kind="passage")
        finally:
            await model.aclose()
            await embeddings.aclose()
    assert isinstance(answer.failure, Rejected)
    assert outside.lines == ["POST /v1/chat/completions HTTP/1.1", "POST /v1/embeddings HTTP/1.1"]
    assert inside.lines == []


async def test_the_guard_sees_who_comes(inside: Peer) -> None:
    """So that the tests above can fail."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(inside.url.rpartition(":")[2]))
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert b"secret" in await reader.read()
    writer.close()
    await writer.wait_closed()
    assert inside.lines == ["GET / HTTP/1.1"]
