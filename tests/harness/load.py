"""Many people at a running application: most read their turns to the end, some leave, some stop, some models fail.

    load = Load(app, endpoint, seed=7)
    await load.run(people=40, seconds=4, pace_s=0.05)   # every stream is checked as it is read
    await load.check_stored()                           # every question has one outcome, which is what its plan says

A turn's plan is its question's first word, and what its model says follows from the question's name, so that nothing
is kept of a turn that is over. Streams are read from bare connections, which cost less than a client's.
"""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tests.harness.app import App, Turn, check_contract
from tests.harness.scripted_endpoint import RESET, Body, Reply, ScriptedEndpoint, call, event, finish, http
from tests.harness.sse_reader import Frame, StreamReader

Plan = Literal["plain", "leave", "stop", "cut", "unpaid", "busy", "reset"]
SHARES: dict[Plan, float] = {
    "plain": 80,
    "leave": 10,  # the reader goes away in the middle
    "stop": 5,
    "cut": 1.25,  # the model's reply breaks off
    "unpaid": 1.25,  # it refuses
    "busy": 1.25,  # it refuses once, for now
    "reset": 1.25,  # the connection breaks once, before a reply
}
ENDS: dict[Plan, str] = {"cut": "model_interrupted", "unpaid": "model_out_of_credit"}
"""The plans that end with an error, and with which."""

WORDS = 12
HALF = 5
"""After how many words a model's reply breaks off."""

SKIP = call(("no_evidence_needed", {"reason": "t"}))
SEARCH = call(("search_chunks", {"query": "board"}))
UNPAID = http(402, {"error": {"message": "pay first"}})
BUSY = http(503, {"error": {"message": "busy"}})

_QUESTION = re.compile(r"(\w+) (\w+): ")


def words_of(name: str) -> list[str]:
    return [f"{name}-{n} " for n in range(WORDS)]


class Load:
    """The people, the model that they ask, and what was counted."""

    def __init__(self, app: App, endpoint: ScriptedEndpoint, *, seed: int) -> None:
        self._app = app
        self._chance = random.Random(seed)
        self._pace_s = 0.0
        self._script = endpoint.script(self._reply, name="load")
        self._failed_once: set[str] = set()
        self._stopped: set[str] = set()
        self.asked: Counter[Plan] = Counter()
        self.most_at_once = 0
        self.refused: Counter[str] = Counter()
        """Responses with another status than 200 and 202, as `status code`."""

    async def run(self, *, people: int, seconds: float, pace_s: float) -> None:
        """So many ask for so long, once all have come in, which takes one answer's time; ends when all have read theirs.

        `pace_s` is from one word of an answer to the next; an answer has WORDS.
        """
        self._pace_s = pace_s
        over = asyncio.get_running_loop().time() + WORDS * pace_s + seconds
        async with asyncio.TaskGroup() as crowd:
            for _ in range(people):
                crowd.create_task(self._person(random.Random(self._chance.randrange(2**32)), over), name="person")

    async def _person(self, chance: random.Random, over: float) -> None:
        """Question after question, half of them in the conversation before."""
        await asyncio.sleep(chance.uniform(0, WORDS * self._pace_s))
        plans, shares = list(SHARES), list(SHARES.values())
        conversation: str | None = None
        while asyncio.get_running_loop().time() < over:
            [plan] = chance.choices(plans, shares)
            conversation = await self._ask(plan, f"n{chance.randrange(10**12)}", conversation)
            if chance.random() < 0.5:
                conversation = None

    async def _ask(self, plan: Plan, name: str, conversation: str | None) -> str | None:
        """One turn, as planned; gives the conversation where another question can be asked in it."""
        body = {"message": f"{plan} {name}: {self._script}"} | (
            {"conversation_id": conversation} if conversation else {}
        )
        turn = Turn()
        async with self._open("/api/chat", body) as (status, frames):
            if status != 200:
                return None
            self.asked[plan] += 1
            self.most_at_once = max(self.most_at_once, self._app.parts.supervisor.running_turns)
            async for frame in frames:
                turn.frames.append(frame)
                if frame.event == "delta" and turn.answer.count(" ") == HALF - 1:
                    if plan == "leave":
                        return None
                    if plan == "stop":
                        await self._stop(turn)
        check_contract(turn)
        self._check_read(plan, name, turn)
        return turn.conversation_id

    async def _stop(self, turn: Turn) -> None:
        async with self._open(f"/api/conversations/{turn.conversation_id}/stop", {"turn_id": turn.turn_id}) as (
            _,
            frames,
        ):
            async for _ in frames:
                pass

    def _check_read(self, plan: Plan, name: str, turn: Turn) -> None:
        whole = "".join(words_of(name))
        if plan in ENDS:
            assert turn.error["code"] == ENDS[plan], (plan, turn.error)
        elif turn.done["stopped"]:
            assert plan == "stop"
            self._stopped.add(name)
            assert whole.startswith(turn.answer)
        else:
            assert turn.answer == whole, (plan, turn.answer)

    @asynccontextmanager
    async def _open(self, path: str, body: object) -> AsyncGenerator[tuple[int, AsyncIterator[Frame]]]:
        """The status and the frames of a POST; whatever is left unread is cut off. HTTP/1.0: the body ends with the connection."""
        address = self._app.http.base_url
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            sent = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.0\r\nHost: {address.host}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(sent) + sent)
            status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
            if status not in (200, 202):
                self.refused[f"{status} {json.loads(await reader.read())['error']['code']}"] += 1
            yield status, _frames(reader)
        finally:
            writer.transport.abort()

    def _reply(self, body: Body) -> Reply:
        """What the model says, by the question's plan and by whether its tool has run."""
        messages: Any = body["messages"]
        asked = max(at for at, message in enumerate(messages) if message["role"] == "user")
        found = _QUESTION.match(messages[asked]["content"])
        assert found is not None
        plan, name = found.groups()
        if plan in ("busy", "reset") and name not in self._failed_once:
            self._failed_once.add(name)
            return BUSY if plan == "busy" else RESET
        if not any(message["role"] == "tool" for message in messages[asked:]):
            return SEARCH if int(name[1:]) % 2 else SKIP
        if plan == "unpaid":
            return UNPAID
        said = [event({"content": word}) for word in words_of(name)]
        if plan == "cut":
            return Reply(said[:HALF], headers=SKIP.headers, pace_s=self._pace_s, close="cut")
        return Reply((*said, finish()), headers=SKIP.headers, pace_s=self._pace_s)

    def forget(self) -> None:
        """Empty what the endpoint remembers of requests, which is the test's memory and not the product's."""
        self._script.requests.clear()

    async def check_stored(self) -> None:
        """Every question that was taken has one turn that is over and one answer, as its plan says and its reader saw."""
        asked: Counter[str] = Counter()
        for row in await self._app.rows(
            "SELECT q.content AS question, count(a.id) AS answers, min(a.content) AS answer, count(DISTINCT t.id) AS turns, "
            "min(t.status) AS status, bool_or(a.stopped) AS stopped, min(a.error_code) AS error FROM messages q "
            "LEFT JOIN turns t ON t.question_id = q.id LEFT JOIN messages a ON a.turn_id = t.id AND a.role = 'assistant' "
            "WHERE q.role = 'user' GROUP BY q.id, q.content"
        ):
            found = _QUESTION.match(row.question)
            assert found is not None, row
            plan, name = found.groups()
            asked[plan] += 1
            assert (row.turns, row.answers) == (1, 1), row
            whole = "".join(words_of(name))
            if plan in ENDS:
                assert (row.status, row.error) == ("failed", ENDS[plan]), row
            elif name in self._stopped:
                assert (row.status, row.stopped) == ("stopped", True), row
            else:
                assert (row.status, row.stopped, row.error, row.answer) == ("done", False, None, whole), row
        assert asked == self.asked


async def _frames(reader: asyncio.StreamReader) -> AsyncGenerator[Frame, None]:
    parser = StreamReader()
    while piece := await reader.read(1 << 16):
        for frame in parser.feed(piece):
            yield frame
