"""A reply's body over a connection of our own, read where it is taken, and the clock of progress.

The connection itself gathers what comes while its owner works (http1.py), so that no task has to read ahead: a token
that comes alone wakes the turn that waits for it and nothing else. Hot path.
"""

import asyncio
import math

import httpx

from app.llm.direct import Body
from app.llm.read_ahead import Stalled


class Straight:
    """Implements Reading. One owner takes; who closes the response ends it."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._silence_s = math.inf if body.timeout_s is None else body.timeout_s
        self._now = asyncio.get_running_loop().time
        self._deadline = math.inf

    async def take(self) -> bytes:
        left = self._deadline - self._now()
        if left > self._silence_s:
            return await self._body.read(self._silence_s)
        try:
            return await self._body.read(max(left, 0.0))
        except httpx.ReadTimeout as error:
            raise Stalled from error

    def expect_within(self, seconds: float) -> None:
        self._deadline = self._now() + seconds

    async def ended(self, within_s: float) -> None:
        until = self._now() + within_s
        try:
            while (left := until - self._now()) > 0 and await self._body.read(left):
                pass
        except httpx.TransportError:
            return  # then it isn't used again; the reply itself was whole
