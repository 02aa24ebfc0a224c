"""Whether a proxy is on the way to an endpoint, and the way through one. Issue 3."""

import asyncio
import ssl
from contextlib import aclosing
from pathlib import Path

import pytest
import trustme

from app.llm.capabilities import Capabilities
from app.llm.connections import proxied
from app.llm.endpoint import EndpointConfig
from app.llm.openai_chat import OpenAIChat
from tests.harness.scripted_endpoint import ScriptedEndpoint, text
from tests.unit.llm.raw_server import RawServer
from tests.unit.llm.reading import ask
from tests.unit.llm.small_proxy import SmallProxy

PROXY = "http://proxy.test:3128"
REPLY = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("base_url", "environment", "expected"),
    [
        ("http://model.test/v1", {}, False),
        ("http://model.test/v1", {"HTTP_PROXY": PROXY}, True),
        ("http://model.test/v1", {"http_proxy": PROXY}, True),
        ("http://model.test/v1", {"HTTPS_PROXY": PROXY}, False),
        ("http://model.test/v1", {"ALL_PROXY": PROXY}, True),
        ("https://model.test/v1", {"HTTP_PROXY": PROXY}, False),
        ("https://model.test/v1", {"HTTPS_PROXY": PROXY}, True),
        ("https://model.test/v1", {"HTTPS_PROXY": ""}, False),
        ("https://model.test/v1", {"ALL_PROXY": PROXY, "NO_PROXY": "*"}, False),
        ("https://model.test/v1", {"ALL_PROXY": PROXY, "NO_PROXY": "other.test, model.test"}, False),
        ("https://model.test/v1", {"ALL_PROXY": PROXY, "no_proxy": ".test"}, False),
        ("https://model.test/v1", {"ALL_PROXY": PROXY, "NO_PROXY": "del.test"}, True),
        ("https://MODEL.test/v1", {"ALL_PROXY": PROXY, "NO_PROXY": "model.TEST"}, False),
        ("http://127.0.0.1:8000/v1", {"ALL_PROXY": PROXY, "NO_PROXY": "localhost,127.0.0.1"}, False),
        ("http://[::1]:8000/v1", {"ALL_PROXY": PROXY, "NO_PROXY": "::1"}, False),
    ],
)  # fmt: skip
def test_the_environment_says_whether_a_proxy_is_on_the_way(
    base_url: str, environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By scheme or for all; NO_PROXY names hosts and the ends of hosts."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxied(EndpointConfig(base_url=base_url, model="m")) is expected


async def test_a_proxy_is_asked_for_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its connection is kept for the next request."""
    async with ScriptedEndpoint() as endpoint, SmallProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        script = endpoint.script(text("Through the proxy."))
        config = EndpointConfig(base_url=endpoint.base_url, model="m")
        async with aclosing(OpenAIChat(config, Capabilities())) as model:
            for _ in range(2):
                assert (await ask(model, script)).outcome.text == "Through the proxy."
        assert proxy.requests == [f"POST {endpoint.base_url}/chat/completions HTTP/1.1"]


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
async def test_tls_goes_through_a_tunnel_and_trusts_what_the_environment_says(
    by_proxy: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CONNECT, then TLS with the endpoint itself; SSL_CERT_FILE names the authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL's
    async with RawServer(tls) as server, SmallProxy() as proxy:
        if by_proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        config = EndpointConfig(base_url=server.url.partition("?")[0], model="m")
        async with aclosing(OpenAIChat(config, Capabilities())) as model:
            asking = asyncio.create_task(ask(model))
            peer = await server.accept()
            assert (await peer.request()).startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(REPLY), REPLY)
            assert (await asking).outcome.text == "Hi"
        assert proxy.requests == ([f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"] if by_proxy else [])
