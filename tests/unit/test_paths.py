"""Chains between two entities: all of them, shortest first, against the plainest way to find them."""

from itertools import pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.paths import Hop, chains
from app.store.graph_links import Edge

NODES = "abcdef"


def plain(edges: list[Edge], max_hops: int) -> list[tuple[str, ...]]:
    """Every walk from a to b without repetition, tried one by one."""
    linked = {(e.subject_id, e.object_id) for e in edges} | {(e.object_id, e.subject_id) for e in edges}
    middles = [m for n in range(max_hops) for m in permutations(NODES[2:], n)]
    walks = [("a", *middle, "b") for middle in middles]
    return [walk for walk in walks if all(pair in linked for pair in pairwise(walk))]


edges = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=14).map(
    lambda pairs: [Edge(str(n), s, o) for n, (s, o) in enumerate(pairs)]
)


@given(edges, st.integers(1, 4))
def test_every_chain_is_found_once_and_shorter_ones_first(edges: list[Edge], max_hops: int) -> None:
    """The same walks as trying all, in order of length."""
    found = chains(edges, ("a", "b"), max_hops=max_hops, limit=1_000)
    walks = [("a", *(hop.to_id for hop in chain)) for chain in found.chains]
    assert sorted(walks) == sorted(plain(edges, max_hops))
    assert [len(walk) for walk in walks] == sorted(len(walk) for walk in walks)
    assert not found.bounded


@given(edges, st.integers(1, 4), st.integers(1, 3))
def test_a_limit_gives_the_first_of_them(edges: list[Edge], max_hops: int, limit: int) -> None:
    """Not others."""
    everything = chains(edges, ("a", "b"), max_hops=max_hops, limit=1_000).chains
    assert chains(edges, ("a", "b"), max_hops=max_hops, limit=limit).chains == everything[:limit]


def test_facts_between_the_same_two_are_one_link_whichever_way_they_point() -> None:
    """The link names all of them."""
    edges = [Edge("1", "a", "b"), Edge("2", "b", "a"), Edge("3", "a", "a")]
    assert chains(edges, ("a", "b"), max_hops=3, limit=9).chains == ((Hop("a", "b", ("1", "2")),),)


def test_steps_are_bounded_and_it_is_said() -> None:
    """A dense graph ends the search, it doesn't run on."""
    nodes = [str(n) for n in range(40)]
    dense = [Edge(f"{s}-{o}", s, o) for s in nodes for o in nodes if s < o]
    found = chains(dense, ("0", "1"), max_hops=4, limit=100_000, max_steps=500)
    assert found.bounded
    assert 0 < len(found.chains) <= 500
