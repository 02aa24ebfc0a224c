"""Clients for any number of streams to one endpoint, at a cost per stream that doesn't grow with their number.

Straight to the endpoint there is one client, over connections of our own (direct.py). Where the environment names a
proxy on the way, httpx's own transport is used. Its pool walks over all of its connections whenever a request begins
or ends (measured: 1.4 ms of CPU to open one stream among 50, 4 ms among 500, 6 ms among 1,000), so streams are dealt
out over small clients, the first with room taking the next one: idle connections gather in the first clients, where
they are found again.
"""

import math
from urllib.request import getproxies, proxy_bypass

import httpx

from app.llm.direct import KEPT_FOR_S, DirectTransport
from app.llm.endpoint import EndpointConfig

PER_CLIENT = 16
"""Streams of a client that goes through a proxy."""


class Connections:
    """Hands out a client for each stream and counts them. One event loop uses it; `aclose` ends every connection."""

    def __init__(self, config: EndpointConfig) -> None:
        self._config = config
        self._tls = httpx.create_ssl_context(trust_env=True)
        self._proxied = proxied(config)
        self._room = PER_CLIENT if self._proxied else math.inf
        self._clients: list[httpx.AsyncClient] = []
        self._open: list[int] = []

    def take(self) -> tuple[int, httpx.AsyncClient]:
        """A client with room for one more stream, and the number under which it is given back."""
        number = next((n for n, count in enumerate(self._open) if count < self._room), len(self._clients))
        if number == len(self._clients):
            self._clients.append(self._client())
            self._open.append(0)
        self._open[number] += 1
        return number, self._clients[number]

    def give_back(self, number: int) -> None:
        """The stream that `take` was called for is over."""
        self._open[number] -= 1

    @property
    def open_streams(self) -> int:
        return sum(self._open)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        """A client that honours the environment's proxies and measures silence, never the whole. As httpx's do, it
        follows no redirect: the prompts and the key go where the operator said.
        """
        config = self._config
        timeout = httpx.Timeout(config.read_timeout_s, connect=config.connect_timeout_s)
        if not self._proxied:
            transport = DirectTransport(self._tls)
            return httpx.AsyncClient(auth=config.auth, timeout=timeout, transport=transport, trust_env=True)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=PER_CLIENT, keepalive_expiry=KEPT_FOR_S)
        return httpx.AsyncClient(auth=config.auth, timeout=timeout, verify=self._tls, limits=limits, trust_env=True)


def proxied(config: EndpointConfig) -> bool:
    """Whether the environment names a proxy for the way to this endpoint."""
    scheme, _, _ = config.chat_url.partition(":")
    proxies = getproxies()
    return bool(proxies.get(scheme) or proxies.get("all")) and not proxy_bypass(config.host)
