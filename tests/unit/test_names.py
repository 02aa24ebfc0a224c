"""Which entity a name means: the same every time, or it is refused. Issue 4 item 2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.names import AmbiguousName, Mention, Names
from app.store.entities import EntityRecord, name_key

WORDS = st.sampled_from(["a", "A", "b", "c"])
MENTIONS = st.lists(
    st.builds(
        Mention,
        WORDS,
        st.sampled_from([None, "x", "y"]),
        st.sampled_from([None, "d"]),
        st.lists(WORDS, max_size=2).map(tuple),
    ),
    max_size=8,
)


def taken(names: Names, mentions: list[Mention]) -> list[str | None]:
    """The id that each mention means; None where it is refused."""
    ids: list[str | None] = []
    for mention in mentions:
        try:
            ids.append(names.take(mention).id)
        except AmbiguousName:
            ids.append(None)
    return ids


@given(MENTIONS)
def test_the_same_rows_never_mean_something_else(mentions: list[Mention]) -> None:
    """What was told apart once may become ambiguous, but is never another entity, and nothing new is made."""
    names = Names([])
    first = taken(names, mentions)
    again = Names(list(names.changed.values()))
    for before, after in zip(first, taken(again, mentions), strict=True):
        assert after in (before, None)
    assert set(again.changed) <= set(names.changed)


@given(MENTIONS)
def test_no_two_entities_have_the_same_identity(mentions: list[Mention]) -> None:
    """Name, type and disambiguator, as the database demands; an alias never repeats the name."""
    names = Names([])
    taken(names, mentions)
    made = list(names.changed.values())
    assert len({(name_key(one.name), one.type, one.disambiguator) for one in made}) == len(made)
    for one in made:
        keys = [name_key(name) for name in (one.name, *one.aliases)]
        assert len(set(keys)) == len(keys)


def test_an_alias_and_a_name_that_are_alike_are_not_guessed_between() -> None:
    """A bare name may mean either; a type decides."""
    model = EntityRecord("1", "Claude", (), "model", "")
    painter = EntityRecord("2", "Claude Monet", ("Claude",), "person", "")
    names = Names([model, painter])
    with pytest.raises(AmbiguousName) as refusal:
        names.match(Mention("claude"))
    assert str(refusal.value) == (
        "'claude' may be any of 2 entities (Claude: model, Claude Monet: person); "
        "give its type and, where it has one, its disambiguator"
    )
    assert names.match(Mention("claude", "person")) == painter
    assert names.match(Mention("claude", "model")) == model
    assert names.match(Mention("claude", "book")) is None
    assert names.match(Mention("claude", None, "the book")) is None
