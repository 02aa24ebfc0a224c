"""OpenAIChat: any endpoint that speaks the OpenAI chat-completions protocol, over httpx, streaming.

Decides when to read, for how long to wait and what kind of body came; sends a request once (retries are
app/turn/policy.py's; a kept connection that was closed meanwhile is replaced by direct.py). What bytes, chunks and
refusals mean is next door: event_stream, reply, failures.
Clocks: connecting has a timeout, silence has one (httpx's read timeout), progress has one (Reading, case P15),
and there is no total. Closing the generator closes the connection at once (case S04).

Hot path: a token that comes alone wakes the turn that waits for it, and nothing in between; what came while the turn
was busy is taken as one piece. Measured in docs/performance.md.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from typing import cast

import httpx
import msgspec
import structlog

from app.llm.capabilities import Capabilities
from app.llm.connections import Connections
from app.llm.direct import BODY, Body
from app.llm.endpoint import EndpointConfig
from app.llm.event_stream import EventStream, EventTooLarge
from app.llm.failures import Asked, Interrupted, ModelFailure, Unreachable, classify
from app.llm.model import Feature, ModelEvent, ModelRequest, ModelTurn, ReasoningDelta, TextDelta
from app.llm.provider_error import MAX_BODY_BYTES, Redactor
from app.llm.read_ahead import ReadAhead, Reading, Stalled
from app.llm.reply import Reply
from app.llm.shape import Profile, Shaped, shape
from app.llm.straight import Straight
from app.llm.transport import TRANSPORT_ERRORS, from_transport

__all__ = ["EndpointConfig", "OpenAIChat"]

MAX_WHOLE_BYTES = 32 * 1024 * 1024
"""The largest reply taken from an endpoint that doesn't stream."""

_REFUSAL_S = 10.0
"""How long the body of a refusal may take; what has come by then is enough."""
_GOODBYE_S = 0.05
"""How long the end of a finished body is waited for, so that its connection can be used again."""
_DECODED = frozenset({"identity", "gzip", "deflate"})
_BOM = b"\xef\xbb\xbf"

_log = structlog.get_logger(__name__)


class OpenAIChat:
    """A chat model behind an endpoint. Implements app.llm.model.Model; close it with `aclose`.

    `capabilities` is the process's registry.
    """

    def __init__(self, config: EndpointConfig, capabilities: Capabilities) -> None:
        self._config = config
        self._url = config.chat_url
        self._headers = config.headers
        self._redact = Redactor(config.secrets)
        self._known = capabilities.of(config.origin, config.ids)
        self._connections = Connections(config)

    @property
    def name(self) -> str:
        return self._config.model

    @property
    def origin(self) -> str:
        return self._config.origin

    def learn(self, feature: Feature) -> None:
        """Remember a refused feature for this endpoint and model; the first time is logged."""
        if self._known.learn(feature):
            _log.info("endpoint_refuses_feature", origin=self.origin, feature=feature.value)

    async def aclose(self) -> None:
        await self._connections.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request once and yield its reply: deltas, then exactly one ModelTurn.

        Raises:
            ModelFailure: after everything that had come before it was yielded.
            ValueError: the request's messages break the protocol.
        """
        shaped = shape(request, self._profile())
        asked = Asked(host=self._config.host, sent=shaped.sent, redact=self._redact)
        reply = Reply(
            tools=[tool.name for tool in request.tools],
            origin=self.origin,
            failure_of=lambda payload: classify(None, {}, payload, asked=asked),
        )
        async with (
            self._response(shaped, asked) as response,
            _reading(response) as reader,
        ):
            if not response.is_success:
                raise classify(response.status_code, response.headers, await _refusal(reader), asked=asked)
            body = _Body(response, reader, reply, self._config, asked)
            async with aclosing(body.deltas()) as deltas:
                async for delta in deltas:
                    yield delta
            turn = body.turn()
            await reader.ended(_GOODBYE_S)
        if reply.junk:
            _log.warning("unreadable_events_skipped", origin=self.origin, count=reply.junk)
        yield turn

    def _profile(self) -> Profile:
        return Profile(
            model=self._config.model,
            origin=self._config.origin,
            id_format=self._known.id_format,
            avoid=self._known.refused,
            parallel_tool_calls=self._config.parallel_tool_calls,
        )

    @asynccontextmanager
    async def _response(self, shaped: Shaped, asked: Asked) -> AsyncGenerator[httpx.Response, None]:
        """Send the request once: the response with its headers, closed at the end however much of it was read."""
        number, client = self._connections.take()
        try:
            request = client.build_request(
                "POST", self._url, content=msgspec.json.encode(shaped.body), headers=self._headers
            )
            try:
                response = await client.send(request, stream=True)
            except TRANSPORT_ERRORS as error:
                raise from_transport(error, began=False, host=asked.host, redact=asked.redact) from error
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            self._connections.give_back(number)


class _Body:
    """The body of one successful response while it is read: a stream of events, or one whole JSON reply."""

    def __init__(
        self, response: httpx.Response, reader: Reading, reply: Reply, config: EndpointConfig, asked: Asked
    ) -> None:
        self._type = response.headers.get("content-type", "no content type").partition(";")[0].strip().lower()
        self._reader = reader
        self._reply = reply
        self._config = config
        self._asked = asked
        self._broke: ModelFailure | None = None

    async def deltas(self) -> AsyncGenerator[TextDelta | ReasoningDelta, None]:
        """All deltas to the end of the body, whatever that is; how it ended is `turn`'s to say."""
        reply = self._reply
        self._reader.expect_within(self._config.progress_timeout_s)
        data = await self._first()
        if data[:1] in (b"{", b"["):
            for delta in await self._whole(data):
                yield delta
        else:
            events = EventStream()
            while data:
                for delta in reply.feed(self._split(events, data)):
                    yield delta
                if reply.ended or self._broke is not None:
                    break
                if reply.progressed:
                    self._reader.expect_within(self._config.progress_timeout_s)
                if reply.finished:
                    self._reader.expect_within(self._config.settle_timeout_s)
                data = await self._next()
            if not reply.ended:
                for delta in reply.feed(events.flush()):
                    yield delta
        for delta in reply.flush():
            yield delta

    def turn(self) -> ModelTurn:
        """What it amounted to.

        Raises:
            ModelFailure: it was cut, broke off, or said so itself.
        """
        return self._reply.turn(self._broke)

    async def _next(self) -> bytes:
        """What has arrived; nothing at the end. Why reading broke off, if it did, is kept for `turn`."""
        try:
            return await self._reader.take()
        except Stalled:
            self._broke = Interrupted(
                f"The reply from {self._asked.host} stopped: no progress within the time allowed."
            )
        except TRANSPORT_ERRORS as error:
            self._broke = from_transport(error, began=True, host=self._asked.host, redact=self._asked.redact)
        return b""

    async def _first(self) -> bytes:
        """The beginning of the body, from its first byte that isn't blank.

        Raises:
            Unreachable: it is no reply: a page, or nothing at all where no stream was announced.
        """
        begun = b""
        while (not begun or _BOM.startswith(begun)) and (data := await self._next()):
            begun = (begun + data).removeprefix(_BOM).lstrip()
        if self._type == "text/html" or begun.startswith(b"<"):
            raise Unreachable(
                f"{self._asked.host} answered with {self._type} instead of a model's reply: check the base URL.",
                transient=False,
            )
        if not begun and self._broke is None and self._type != "text/event-stream":
            raise Unreachable(f"{self._asked.host} answered with an empty body ({self._type}).")
        return begun

    async def _whole(self, data: bytes) -> list[TextDelta | ReasoningDelta]:
        """The deltas of a reply that came as one JSON object; none where it broke off."""
        parts, size = [data], len(data)
        while more := await self._next():
            parts.append(more)
            size += len(more)
            if size > MAX_WHOLE_BYTES:
                raise Unreachable(f"{self._asked.host} answered with more than {MAX_WHOLE_BYTES} bytes of JSON.")
        return [] if self._broke is not None else self._reply.feed_whole(b"".join(parts))

    def _split(self, events: EventStream, data: bytes) -> list[bytes]:
        try:
            return events.feed(data)
        except EventTooLarge as error:
            self._broke = Interrupted(f"The reply from {self._asked.host} holds {error}.")
            return []


def _reading(response: httpx.Response) -> AbstractAsyncContextManager[Reading]:
    """The body's bytes as they come. Identity is asked for; what is compressed anyway is decoded step by step (S02).

    Raises:
        Unreachable: it is compressed in a way that was not asked for and can't be read.
    """
    codings = {coding.strip().lower() for coding in response.headers.get("content-encoding", "").split(",")} - {""}
    if not codings <= _DECODED:
        raise Unreachable(f"The reply is compressed as {', '.join(sorted(codings))}.", transient=False)
    body: object = response.extensions.get(BODY)
    if isinstance(body, Body) and codings <= {"identity"}:
        return nullcontext(Straight(body))
    chunks = response.aiter_bytes() if codings - {"identity"} else response.aiter_raw()
    return ReadAhead(cast("AsyncGenerator[bytes, None]", chunks), response.aclose)


async def _refusal(reader: Reading) -> bytes:
    """The body of a refusal, as much as comes soon; a body that breaks off has said enough with its status."""
    body = b""
    reader.expect_within(_REFUSAL_S)
    try:
        while len(body) < MAX_BODY_BYTES and (data := await reader.take()):
            body += data
    except (Stalled, *TRANSPORT_ERRORS):
        return body
    return body
