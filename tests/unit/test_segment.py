"""Words for search: what an index holds, what a query asks for, and that any text is safe in both."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.segment import _ONE_UNSPACED as ONE_UNSPACED  # pyright: ignore[reportPrivateUsage]
from app.knowledge.segment import MAX_POSITION, Query, parse_query, quote, segment, term, to_tsvector_literal


def words(text: str) -> list[str]:
    return [word for word, _ in segment(text)]


def test_a_chinese_run_gives_single_characters_and_pairs_at_their_first_character() -> None:
    """Case K01: a two-character word and a single character inside a sentence are words of the index."""
    assert sorted(segment("仓库盘点")) == sorted(
        [("仓", 1), ("库", 2), ("盘", 3), ("点", 4), ("仓库", 1), ("库盘", 2), ("盘点", 3)]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The boards were removed", ["the", "board", "were", "remov"]),
        ("OpenAI’s CEO", ["openai", "ceo"]),
        ("it's", ["it"]),
        ("Zürich café", ["zurich", "cafe"]),
        ("ＯｐｅｎＡＩ ①", ["openai", "1"]),
        ("v2.1", ["v2.1", "v2", "1"]),
        ("foo_bar", ["foo_bar", "foo", "bar"]),
        ("C++ C# F#", ["c++", "c", "c#", "c", "f#", "f"]),
        ("O'Neil", ["o'neil", "o", "neil"]),
        ("2023-11-17", ["2023-11-17", "2023", "11", "17"]),
        ("пример текста", ["пример", "текста"]),
        ("हिन्दी", ["हिन्दी"]),
        ("🧭 👩‍🌾 — !", []),
        ("", []),
    ],
)
def test_words_of_other_scripts(text: str, expected: list[str]) -> None:
    """Latin words are stems without accents; numbers and code keep their whole beside their parts."""
    assert words(text) == expected


@pytest.mark.parametrize("text", ["ハンバーガー", "한국어", "ภาษาไทย", "がぎぐ", "〇一二", "𠮷野家"])
def test_every_unspaced_script_gives_pairs(text: str) -> None:
    """Kana, hangul, Thai and rare Han are cut as common Han is."""
    assert [text[at : at + 2] for at in range(len(text) - 1)] == [word for word in words(text) if len(word) == 2]


def test_a_line_break_inside_a_chinese_sentence_separates_nothing() -> None:
    """Hard-wrapped text and PDFs break words over lines."""
    assert "穿透" in words("缓存穿\n透问题")


def test_mixed_text_shares_one_count_of_positions() -> None:
    """Phrases may hold both scripts."""
    assert ("redi", 3) in list(segment("缓存redis"))
    assert parse_query("缓存 Redis").phrase == "'缓存' <2> 'redi'"


def test_the_index_holds_pairs_and_the_last_character_and_a_prefix_finds_the_others() -> None:
    """Case K01 at half the size: `'库':*` finds the pair that begins with it."""
    assert to_tsvector_literal("仓库盘点 a") == "'点':4 '仓库':1 '库盘':2 '盘点':3 'a':5"
    assert (term("库"), term("点"), term("库盘"), term("a")) == ("'库':*", "'点':*", "'库盘'", "'a'")


def test_headings_come_first_with_a_weight_of_their_own() -> None:
    """A gap keeps phrases from running from a heading into the text."""
    assert to_tsvector_literal("body", heading="The board") == "'the':1B 'board':2B 'bodi':11"


def test_positions_and_words_stay_within_what_a_tsvector_holds() -> None:
    """PostgreSQL 12.11: positions up to 16,383, lexemes below 2,047 bytes."""
    literal = to_tsvector_literal("词" * 20_000 + " " + "é" * 5_000)
    entries = re.findall(r"'((?:[^']|'')*)':(\d+)", literal)
    assert max(int(position) for _, position in entries) == MAX_POSITION
    assert max(len(word.encode()) for word, _ in entries) < 2_047


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("board members", Query(("board", "member"), "'board' <1> 'member'", "('board') & ('member')")),
        (
            "Who sat on the board?",
            Query(("sat", "board"), "'who' <1> 'sat' <1> 'on' <1> 'the' <1> 'board'", "('sat') & ('board')"),
        ),
        ("what is it", Query(("what", "is", "it"), "'what' <1> 'is' <1> 'it'", "('what') & ('is') & ('it')")),
        (
            "OpenAI 的时间线",
            Query(
                ("openai", "时间", "间线"),
                "'openai' <1> '的时' <1> '时间' <1> '间线'",
                "('openai') & ('时间' <1> '间线')",
            ),
        ),
        ("盘点 清单", Query(("盘点", "清单"), "'盘点' <2> '清单'", "('盘点') & ('清单')")),
        ("仓", Query(("仓",), "'仓':*", "('仓':*)")),
        ("的", Query(("的",), "'的':*", "('的':*)")),
        (
            "pump:v2/1",
            Query(("pump", "v2", "1", "pump:v2/1"), "'pump' <1> 'v2' <1> '1'", "('pump' <1> 'v2' <1> '1')"),
        ),
        ("a & | !", Query(("a",), "'a'", "('a')")),
        ("🧭", Query((), "", "")),
        ("( :* ' \\ \"", Query((), "", "")),
    ],
)
def test_a_query_is_data(text: str, expected: Query) -> None:
    """Cases K01 and K03: no character of a question is syntax; function words don't count beside others."""
    assert parse_query(text) == expected


def test_a_query_of_ten_thousand_characters_is_bounded() -> None:
    """Case K03: neither many words nor one repeated word makes a long statement."""
    many = parse_query(" ".join(f"word{n}" for n in range(10_000)))
    same = parse_query("董" * 10_000)
    assert len(many.words) <= 128
    assert same.phrase.count("<1>") < 64


@given(st.text())
def test_what_is_indexed_is_what_is_asked_for(text: str) -> None:
    """Every word of a question made of a text is a word of that text's index."""
    assert set(parse_query(text).words) <= set(words(text))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_literal_can_be_taken_apart_again(text: str) -> None:
    """Quotes and backslashes are escaped: the literal's lexemes are the words, but single characters that begin a pair."""
    entries = re.findall(r"'((?:[^'\\]|''|\\\\)+)':\d+(?: |\Z)", to_tsvector_literal(text))
    indexed = [word.replace("''", "'").replace("\\\\", "\\") for word in entries]
    pairs = {(word[0], at) for word, at in segment(text) if len(word) == 2 and ONE_UNSPACED.match(word)}
    assert indexed == [word for word, at in segment(text) if (word, at) not in pairs]


def test_quotes_and_backslashes_are_doubled() -> None:
    """The two characters that a lexeme's literal must escape."""
    assert quote("o'neil\\x") == "'o''neil\\\\x'"
