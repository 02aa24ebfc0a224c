"""Replicas as they are run in earnest: `turnstream serve` processes on one database and one Redis, with one model.

    async with running_cluster(folder, url, redis, count=2) as cluster:
        owner, other = cluster.members
        tab = cluster.tab(owner)                # asks `owner` first, comes back wherever it is let in
        ...
        await owner.kill()
        await cluster.lapse()                   # 15 seconds pass, as far as leases know
        ...
        await cluster.check(tab)                # one stored outcome, and it is what the tab shows

Each member reaches Redis and Postgres through a proxy of its own, so that either can be cut off from it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import URL, text

from app.live.redis_streams import RedisLog
from app.store.engine import Database
from tests.harness.redis import RedisServer
from tests.harness.replica import Replica, free_port, launch
from tests.harness.scripted_endpoint import Body, Reply, ScriptedEndpoint, call
from tests.harness.scripted_endpoint import text as saying
from tests.harness.tab import DEADLINE_S, Tab, browsing
from tests.harness.tcp_proxy import Target, TcpProxy

SKIP = call(("no_evidence_needed", {"reason": "t"}))
SEARCH = call(("search_chunks", {"query": "board"}))


def by_progress(*replies: Reply) -> Callable[[Body], Reply]:
    """The reply that is due by the tool results which the request holds, whoever asks and however often."""

    def step(body: Body) -> Reply:
        messages: Any = body["messages"]
        asked = max(at for at, message in enumerate(messages) if message["role"] == "user")
        results = sum(message["role"] == "tool" for message in messages[asked:])
        return replies[min(results, len(replies) - 1)]

    return step


def held(gate: asyncio.Event, reply: Reply) -> Reply:
    """The reply, of which nothing comes before the gate is open."""
    if isinstance(reply.pieces, AsyncIterable):
        raise TypeError("a reply that is generated can't be asked for twice")
    return replace(reply, pieces=(gate, *reply.pieces))


class Member:
    """One replica of the cluster: its process, which may be another after a restart, on a port that stays."""

    def __init__(self, folder: Path, proxies: tuple[TcpProxy, TcpProxy] | None, settings: dict[str, str]) -> None:
        self._folder = folder
        self._settings = settings
        self._proxies = proxies
        self._replica: Replica | None = None
        self.extra: Mapping[str, str] = {}
        """Of the environment of its next process."""
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def redis(self) -> TcpProxy:
        """The only way from here to Redis."""
        assert self._proxies is not None
        return self._proxies[0]

    @property
    def postgres(self) -> TcpProxy:
        """The only way from here to Postgres."""
        assert self._proxies is not None
        return self._proxies[1]

    @property
    def running(self) -> Replica:
        """Its process."""
        assert self._replica is not None, "it was killed, and not started again"
        return self._replica

    @property
    def alive(self) -> bool:
        return self._replica is not None

    @property
    def pid(self) -> int:
        return self.running.process.pid

    @property
    def http(self) -> httpx.AsyncClient:
        return self.running.http

    async def start(self) -> None:
        """Mend its ways to Redis and Postgres, and start it if it doesn't run."""
        for proxy in self._proxies or ():
            proxy.mend()
        if self._replica is None:
            self._replica = await launch(self._folder, {**self._settings, "port": str(self.port)}, extra=self.extra)
        else:
            await self._replica.ready()

    async def kill(self) -> None:
        """End it as kill -9 does."""
        replica, self._replica = self.running, None
        await replica.kill()
        await replica.aclose()

    async def end(self) -> int:
        """SIGTERM, and wait; the exit status."""
        replica, self._replica = self.running, None
        status = await replica.end()
        await replica.http.aclose()
        return status

    async def aclose(self) -> None:
        if self._replica is not None:
            for proxy in self._proxies or ():
                proxy.mend()
            await self.end()


class Cluster:
    """`members` are in the order in which they were started; `database` is the test's own way to the rows."""

    def __init__(
        self,
        members: tuple[Member, ...],
        endpoint: ScriptedEndpoint,
        redis: RedisServer,
        database: Database,
        browser: httpx.AsyncClient,
    ) -> None:
        self.members = members
        self.endpoint = endpoint
        self.redis = redis
        self.database = database
        self.browser = browser

    def tab(self, first: Member, *, only: bool = False, deadline_s: float = DEADLINE_S) -> Tab:
        """A tab that goes to this member first; `only`: and never to another."""
        at = self.members.index(first)
        addresses = [member.address for member in (*self.members[at:], *self.members[:at])]
        return Tab(self.browser, addresses[:1] if only else addresses, deadline_s=deadline_s)

    async def rows(self, sql: str, **parameters: object) -> list[Any]:
        """What a statement of the test's own finds."""
        async with self.database.read() as connection:
            return list((await connection.execute(text(sql), parameters)).all())

    async def execute(self, sql: str, **parameters: object) -> None:
        """Change the database behind everybody's back."""
        async with self.database.begin() as connection:
            await connection.execute(text(sql), parameters)

    async def lapse(self, *also: Member) -> None:
        """Let the leases of the dead lapse now, and have the living look for them at once where Redis is there.

        `also`: living members whose leases lapse too.
        """
        living = [str(member.pid) for member in self.members if member.alive and member not in also]
        await self.execute(
            "UPDATE turns SET lease_until = now() - interval '1 second' WHERE status = 'running' "
            "AND split_part(replica, ':', 2) <> ALL(CAST(:living AS text[]))",
            living=living,
        )
        await self.tell_released()

    async def tell_released(self) -> None:
        """Have every replica look for lost turns now."""
        log = RedisLog(self.redis.url, "test")
        async with log.running():
            await log.tell_released()

    async def until_row(self, sql: str, *, within_s: float = 20, **parameters: object) -> None:
        """Wait until the statement finds a row."""
        async with asyncio.timeout(within_s):
            while not await self.rows(sql, **parameters):
                await asyncio.sleep(0.02)

    async def mend(self) -> None:
        """Everything that a test broke runs again."""
        if not await _answers(self.redis.port):
            await asyncio.to_thread(self.redis.start)
        await asyncio.gather(*(member.start() for member in self.members))

    async def clear(self) -> None:
        """Let no turn run that a failed test left."""
        await self.execute(
            "DELETE FROM conversations WHERE id IN (SELECT conversation_id FROM turns WHERE status = 'running')"
        )

    async def check(self, *tabs: Tab) -> None:
        """Each tab's turn has exactly one outcome, and it is what the tab shows; no turn is left running."""
        for tab in tabs:
            await self._check(tab)
        left = await self.rows("SELECT id, replica, attempt, deaths FROM turns WHERE status = 'running'")
        assert left == [], left

    async def _check(self, tab: Tab) -> None:
        found = await self.rows(
            "SELECT t.status, t.last_seq, m.id, m.content, m.steps, m.sources, m.evidence, m.cited, m.stopped, "
            "m.error_code FROM turns t JOIN messages m ON m.turn_id = t.id AND m.role = 'assistant' "
            "WHERE t.id = CAST(:turn_id AS uuid)",
            turn_id=tab.turn_id,
        )
        assert len(found) == 1, found
        (stored,) = found
        assert (tab.content, tab.steps, tab.sources) == (stored.content, stored.steps, stored.sources)
        assert tab.seq == stored.last_seq
        if stored.error_code is not None:
            assert stored.status == "failed"
            assert (tab.terminal.event, tab.terminal.data["code"]) == ("error", stored.error_code)
            return
        assert stored.status == ("stopped" if stored.stopped else "done")
        told = {key: tab.terminal.data[key] for key in ("message_id", "stopped", "evidence", "cited")}
        assert told == {
            "message_id": str(stored.id),
            "stopped": stored.stopped,
            "evidence": stored.evidence,
            "cited": stored.cited,
        }

    async def usable(self, tab: Tab, through: Member) -> None:
        """The tab's conversation takes another question."""
        after = self.tab(through)
        script = self.endpoint.script(by_progress(SKIP, saying("And so on.")))
        await after.ask(f"And then? {script}", conversation_id=tab.conversation_id)
        assert after.content == "And so on."
        await self.check(after)


async def both_tabs(cluster: Cluster, tabs: asyncio.TaskGroup, question: str) -> tuple[Tab, Tab]:
    """A tab that asks the first member, and one that attached to the second as soon as the turn had begun."""
    near, far = cluster.tab(cluster.members[0]), cluster.tab(cluster.members[1])
    tabs.create_task(near.ask(question))
    await near.until(lambda: near.conversation_id is not None)
    assert near.conversation_id is not None
    tabs.create_task(far.attach(near.conversation_id))
    await far.until(lambda: far.frames != [])
    return near, far


async def attempts(cluster: Cluster, tab: Tab) -> tuple[int, int]:
    """Which owner in line the turn's last one was, and how many died with it."""
    (row,) = await cluster.rows("SELECT attempt, deaths FROM turns WHERE id = CAST(:t AS uuid)", t=tab.turn_id)
    return row.attempt, row.deaths


@asynccontextmanager
async def running_cluster(
    folder: Path, url: URL, redis: RedisServer, *, count: int, proxied: bool = True, **settings: str
) -> AsyncGenerator[Cluster, None]:
    """So many replicas on a migrated database, all ready; ended by SIGTERM when the block ends."""
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(ScriptedEndpoint())
        browser = await stack.enter_async_context(browsing())
        database = Database(url)
        stack.push_async_callback(database.aclose)
        model = {"llm_base_url": endpoint.base_url, "llm_model": "scripted", "llm_retry_base_s": "0.05"}
        members: list[Member] = []
        for _ in range(count):
            given = {"database_url": _address(url), "redis_url": redis.url, **model, **settings}
            proxies = None
            if proxied:
                proxies = (TcpProxy(("127.0.0.1", redis.port)), TcpProxy(_postgres(url)))
                for proxy in proxies:
                    await stack.enter_async_context(proxy.running())
                through = url.set(host="127.0.0.1", port=proxies[1].port, query={})
                given |= {"redis_url": f"redis://127.0.0.1:{proxies[0].port}/0", "database_url": _address(through)}
            members.append(Member(folder, proxies, given))
        cluster = Cluster(tuple(members), endpoint, redis, database, browser)
        try:
            await asyncio.gather(*(member.start() for member in members))
            yield cluster
        finally:
            await asyncio.gather(*(member.aclose() for member in members))


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def _address(url: URL) -> str:
    """As a user writes it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _postgres(url: URL) -> Target:
    """Where the server listens: the path of its socket, or host and port."""
    folder, port = url.query.get("host"), url.query.get("port", "5432")
    if isinstance(folder, str) and isinstance(port, str) and folder.startswith("/"):
        return f"{folder}/.s.PGSQL.{port}"
    return (url.host or "127.0.0.1", url.port or 5432)
