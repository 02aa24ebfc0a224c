"""The chains between two entities, shortest first, with a bound on what is read and on steps.

A chain visits no entity twice. Several facts between the same two entities are one link of a chain. How links are
read is decided in app/store/graph_links.py. Source: decision 0009.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from app.store import graph_links
from app.store.engine import Database
from app.store.graph import View
from app.store.graph_links import Edge, PathQuery

NEAR_HOPS = 2
"""Chains of so many links are looked for first: where they are enough, nothing further is read."""

MAX_STEPS = 50_000
"""Entities entered while chains are looked for, at most."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A link of a chain: from one entity to the next, by one or more facts."""

    from_id: str
    to_id: str
    fact_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains in order of length. `bounded`: more steps would have been needed to say that these are all."""

    chains: tuple[tuple[Hop, ...], ...]
    bounded: bool


@dataclass(frozen=True, slots=True)
class Paths:
    """Chains, whether the search was ended at a bound, and how many links were left out for their unknown dates."""

    chains: tuple[tuple[Hop, ...], ...]
    bounded: bool
    undecided: int


async def paths(database: Database, view: View, query: PathQuery, *, limit: int) -> Paths:
    """The first `limit` chains between two entities, shortest first.

    Raises:
        StoreUnavailable: the database did not answer. Never means that there is no chain.
    """
    ends = (query.from_id, query.to_id)
    found = Paths((), bounded=False, undecided=0)
    for hops in sorted({min(NEAR_HOPS, query.max_hops), query.max_hops}):
        links = await graph_links.links(database, view, replace(query, max_hops=hops))
        made = await asyncio.to_thread(chains, links.edges, ends, max_hops=hops, limit=limit)
        found = Paths(made.chains, links.bounded or made.bounded, links.undecided)
        if len(found.chains) == limit:
            break
    return found


def chains(
    edges: Sequence[Edge], ends: tuple[str, str], *, max_hops: int, limit: int, max_steps: int = MAX_STEPS
) -> Chains:
    """The first `limit` chains of at most `max_hops` links from the first end to the second."""
    between: dict[str, dict[str, list[str]]] = {}
    for edge in edges:
        if edge.subject_id != edge.object_id:
            between.setdefault(edge.subject_id, {}).setdefault(edge.object_id, []).append(edge.fact_id)
            between.setdefault(edge.object_id, {}).setdefault(edge.subject_id, []).append(edge.fact_id)
    search = _Search(between, ends[1], max_steps)
    start = ends[0]
    nearest = search.distance.get(start)
    if start == ends[1] or nearest is None:
        return Chains((), bounded=False)
    found: list[tuple[Hop, ...]] = []
    for length in range(nearest, max_hops + 1):
        walks = islice(search.of_length((start,), length), limit - len(found))
        found += [tuple(Hop(a, b, tuple(between[a][b])) for a, b in pairwise(walk)) for walk in walks]
        if len(found) == limit:
            break
    return Chains(tuple(found), bounded=search.exhausted)


class _Search:
    """Depth first towards one entity, entering only what can still reach it in time."""

    def __init__(self, between: dict[str, dict[str, list[str]]], target: str, max_steps: int) -> None:
        self._between = between
        self._target = target
        self._left = max_steps
        self.distance = _distances(between, target)

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    def of_length(self, walked: tuple[str, ...], length: int) -> Iterator[tuple[str, ...]]:
        """Chains that begin with what was walked and have exactly `length` more links."""
        for entity in self._between.get(walked[-1], {}):
            if entity in walked or self.distance.get(entity, length) > length - 1:
                continue
            if self.exhausted:
                return
            self._left -= 1
            if entity == self._target:
                if length == 1:
                    yield (*walked, entity)
                continue
            yield from self.of_length((*walked, entity), length - 1)


def _distances(between: dict[str, dict[str, list[str]]], target: str) -> dict[str, int]:
    distance = {target: 0}
    waiting = deque([target])
    while waiting:
        entity = waiting.popleft()
        for other in between.get(entity, {}):
            if other not in distance:
                distance[other] = distance[entity] + 1
                waiting.append(other)
    return distance
