"""A question asked of a running server. A connection that drops is taken up again where it broke off.

Before the first frame the question itself is sent again, with the same request_id, so that it is asked once; from
then on the turn is attached to, on from the last frame that was seen. Source: DESIGN section 5.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from httpx_sse import EventSource, SSEError, aconnect_sse

from app.cli.ask_frames import TERMINAL, Lost, Question, Shown
from app.errors import StartError, TurnErrorCode
from app.settings import is_loopback

GIVE_UP_S = 60.0
"""How long a connection is tried to be had again."""
AGAIN_S = 0.25
"""The wait before the first try; it doubles, up to MOST_S."""
MOST_S = 4.0
SILENT_S = 90.0
"""How long a server may be silent: a heartbeat comes far more often."""
PROBE_S = 1.0


class _Away(Exception):
    """The server can't be heard just now."""


class Remote:
    """One turn at a server. Implements Conduit."""

    def __init__(self, url: str, question: Question, *, token: str | None) -> None:
        self._http = _client(url, token, timeout=httpx.Timeout(10, read=SILENT_S))
        self._url = url
        self._body = question.body() | {"request_id": str(uuid4())}
        self._turn: tuple[str, str] | None = None
        self._known = asyncio.Event()
        self._last_id = ""
        self._sent = False

    async def frames(self) -> AsyncGenerator[Shown, None]:
        loop = asyncio.get_running_loop()
        wait, since = AGAIN_S, None
        async with self._http:
            while True:
                cause = "the stream ended"
                try:
                    async with aclosing(self._attempt()) as frames:
                        async for frame in frames:
                            wait, since = AGAIN_S, None
                            yield frame
                            if frame.event in TERMINAL:
                                return
                except _Away as away:
                    cause = str(away)
                since = since or loop.time()
                if loop.time() - since > GIVE_UP_S:
                    raise Lost(f"The connection was lost and could not be had again: {cause}.")
                await asyncio.sleep(wait)
                wait = min(wait * 2, MOST_S)

    async def stop(self) -> None:
        await self._known.wait()
        conversation_id, turn_id = self._turn or ("", "")
        try:
            answer = await self._http.post(f"/api/conversations/{conversation_id}/stop", json={"turn_id": turn_id})
        except httpx.TransportError as error:
            raise Lost(f"The server could not be asked to stop the turn: {error}.") from error
        if not answer.is_success and _refusal(answer)[0] != TurnErrorCode.TURN_NOT_RUNNING:
            raise Lost(f"The server didn't stop the turn: {_refusal(answer)[1]}")

    def _open(self) -> AbstractAsyncContextManager[EventSource]:
        if self._turn is None:
            return aconnect_sse(self._http, "POST", "/api/chat", json=self._body)
        headers = {"Last-Event-ID": self._last_id}
        return aconnect_sse(self._http, "GET", f"/api/conversations/{self._turn[0]}/live", headers=headers)

    async def _attempt(self) -> AsyncGenerator[Shown, None]:
        """The frames of one connection. Raises _Away where another one may bring the rest, else StartError or Lost."""
        try:
            async with self._open() as source:
                await self._check(source.response)
                async with aclosing(source.aiter_sse()) as events:
                    async for event in events:
                        if event.data:  # else a heartbeat, or when to come back
                            yield self._seen(Shown(event.id, event.event, event.json()))
        except (httpx.TransportError, SSEError) as error:
            cause = str(error) or type(error).__name__
            if not self._sent and isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
                raise StartError(f"No server answers at {self._url}: {cause}") from error
            raise _Away(cause) from error
        finally:
            self._sent = True

    async def _check(self, response: httpx.Response) -> None:
        """That it is a stream; raises what is to be made of anything else."""
        if response.status_code == 200:
            return
        await response.aread()
        limited = response.status_code == 429 and self._turn is not None  # the turn runs: it is worth coming back for
        if limited or response.status_code in (502, 503, 504):
            raise _Away(f"the server answered {response.status_code}")
        _, message = _refusal(response)
        raise StartError(message) if self._turn is None else Lost(message)

    def _seen(self, frame: Shown) -> Shown:
        if frame.event == "idle":
            raise Lost("The turn is over, and its end isn't kept any more; the conversation has the answer.")
        if frame.event == "conversation":
            self._turn = (frame.data["id"], frame.data["turn_id"])
            self._known.set()
        self._last_id = frame.id
        return frame


async def answers(url: str) -> bool:
    """Whether a server of ours answers there, also one that asks who we are."""
    async with _client(url, None, timeout=httpx.Timeout(PROBE_S)) as http:
        try:
            answer = await http.get("/api/settings")
            said: object = answer.json()
        except (httpx.TransportError, ValueError):
            return False
    known = "prompt_version" if answer.status_code == 200 else "error"
    return isinstance(said, dict) and known in said


def _client(url: str, token: str | None, *, timeout: httpx.Timeout) -> httpx.AsyncClient:
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:  # a port that can't be one
        host = None
    if not host:
        raise StartError(f"{url!r} is no address of a server; allowed is http:// or https:// with a host.")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # a proxy of the environment knows no server of this machine
    return httpx.AsyncClient(base_url=url, timeout=timeout, headers=headers, trust_env=not is_loopback(host))


def _refusal(response: httpx.Response) -> tuple[str, str]:
    """The code and the sentence of a refusal; of anything else its status."""
    try:
        error = response.json()["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return "", f"The server answered {response.status_code}, and not as turnstream does."
