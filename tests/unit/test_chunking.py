"""Chunks: nothing is lost, none is too long, none crosses a top-level section."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.blocks import Block
from app.knowledge.chunking import MAX_CHARS, Chunk, chunk, sentences, split

LINES = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]) | st.just(" "), min_size=1, max_size=90
)
TEXTS = st.lists(LINES.filter(str.strip), min_size=1, max_size=40).map("\n".join)
TITLES = st.sampled_from(["A", "B", "Long title of a section", "第三章"])
BLOCKS = st.lists(
    st.builds(Block, text=TEXTS, path=st.lists(TITLES, max_size=3).map(tuple), page=st.none() | st.integers(1, 9)),
    max_size=12,
)


def squeezed(text: str) -> str:
    return "".join(text.split())


@given(BLOCKS)
def test_nothing_of_the_text_is_lost(blocks: list[Block]) -> None:
    """Every block's text stands in the chunks, in order, whatever it is cut into."""
    everything = squeezed("".join(piece.text for piece in chunk(tuple(blocks))))
    at = 0
    for block in blocks:
        at = everything.index(squeezed(block.text), at) + len(squeezed(block.text))


@given(BLOCKS)
def test_no_chunk_is_too_long_or_blank(blocks: list[Block]) -> None:
    """The limit holds with the heading lines that a chunk of several sections has."""
    for piece in chunk(tuple(blocks)):
        assert piece.text.strip()
        assert len(piece.text) <= MAX_CHARS


@given(BLOCKS)
def test_no_chunk_crosses_a_top_level_section(blocks: list[Block]) -> None:
    """Each chunk's path begins with the top heading of all that is in it."""
    tops = [block.path[:1] for block in blocks]
    ours = [piece.path[:1] for piece in chunk(tuple(blocks))]
    assert [top for n, top in enumerate(tops) if n == 0 or tops[n - 1] != top] == [
        top for n, top in enumerate(ours) if n == 0 or ours[n - 1] != top
    ]


@given(st.text(max_size=400), st.integers(1, 60))
def test_pieces_join_to_the_text_again(text: str, limit: int) -> None:
    """Nothing is added or dropped by cutting."""
    pieces = split(text, limit)
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)
    assert "".join(sentences(text)) == text


def test_small_paragraphs_share_a_chunk_until_it_is_full() -> None:
    """About 900 characters to a chunk."""
    blocks = tuple(Block(f"Paragraph {n}. " + "x" * 185) for n in range(10))
    assert [len(piece.text) for piece in chunk(blocks)] == [798, 798, 398]


def test_headings_that_begin_inside_a_chunk_are_lines_of_it() -> None:
    """Short subsections share a chunk under the heading they have in common."""
    blocks = (
        Block("Intro.", ("Board",)),
        Block("Six people.", ("Board", "2022")),
        Block("Three people.", ("Board", "2023"), 4),
    )
    assert chunk(blocks) == [Chunk("Intro.\n\n2022\nSix people.\n\n2023\nThree people.", ("Board",))]


def test_a_chunk_of_one_section_has_its_whole_path_and_first_page() -> None:
    """The heading reads as a path; the page is where the chunk begins."""
    (only,) = chunk((Block("Six people.", ("Board", "2022"), 3), Block("And a chair.", ("Board", "2022"), 4)))
    assert (only.heading, only.page, only.text) == ("Board › 2022", 3, "Six people.\n\nAnd a chair.")


def test_a_page_that_is_full_enough_ends_its_chunk() -> None:
    """A chunk's page is then the page of all of its text."""
    blocks = (*(Block("word " * 50, (), page) for page in (1, 2)), Block("end", (), 3))
    assert [piece.page for piece in chunk(blocks)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("One sentence here. " * 90, "."),
        ("董事会解除了首席执行官的职务。员工要求其复职！" * 70, "。！"),
        ("no sentence end at all\n" * 80, "l"),
    ],
)
def test_a_long_paragraph_is_cut_at_sentences_or_lines(text: str, ends: str) -> None:
    """Latin and CJK sentence ends are known; text without any is cut at its lines."""
    pieces = chunk((Block(text.strip()),))
    assert len(pieces) >= 2
    assert all(piece.text[-1] in ends for piece in pieces)


def test_text_without_any_bound_is_cut_between_what_a_reader_sees_as_characters() -> None:
    """Case T06: no cut inside a family or a flag."""
    family = "👩‍🌾"
    pieces = split(family * 500, 100)
    assert all(set(piece.split(family)) == {""} for piece in pieces)
