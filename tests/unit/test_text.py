"""What `app.text` lets through, and where it cuts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text import boundary, clean, clean_json, cut

ANY_TEXT = st.text(st.characters() | st.characters(categories=["Cs"]))
FARMER = "\U0001f469\u200d\U0001f33e"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
NORWAY, SWEDEN = "\U0001f1f3\U0001f1f4", "\U0001f1f8\U0001f1ea"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a\x00b", "ab"),
        ("\x00", ""),
        ("中\x00文", "中文"),
        ("\ud83d", "\ufffd"),
        (chr(0xDE00), "\ufffd"),
        ("x\ud83dy", "x\ufffdy"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d\x00\ude00", "\U0001f600"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("\udbff\udfff", "\U0010ffff"),
        ("A\U0001f980é", "A\U0001f980é"),
    ],
)
def test_nul_goes_pairs_are_joined_and_lone_surrogates_are_replaced(given_text: str, expected: str) -> None:
    """Case D01: NUL removed, a lone surrogate becomes U+FFFD."""
    assert clean(given_text) == expected


@given(ANY_TEXT)
def test_clean_text_can_be_stored_and_cleaning_it_again_changes_nothing(text: str) -> None:
    """Case D01: whatever came in, Postgres can take it."""
    cleaned = clean(text)
    assert "\x00" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_text_without_fault_is_left_as_it_is(text: str) -> None:
    """Cleaning costs nothing where nothing is wrong."""
    assert clean(text) == text


def test_json_is_cleaned_in_keys_and_values_at_every_depth() -> None:
    """Case D01: a tool argument holds NUL and half a pair."""
    value = {"a\x00": ["\ud83d", {"b": "x\x00"}, 1, 2.5, True, None], "c": ("\x00",)}
    assert clean_json(value) == {"a": ["\ufffd", {"b": "x"}, 1, 2.5, True, None], "c": [""]}


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("two words", 5, "two…"),
        ("ab", 1, "…"),
        ("ab\U0001f9edcd", 4, "ab\U0001f9ed…"),
        ("ab\U00029e3dcd", 4, "ab\U00029e3d…"),
        (f"ab{NORWAY}cd", 4, "ab…"),
        (f"ab{NORWAY}cd", 5, f"ab{NORWAY}…"),
        (f"{NORWAY}{SWEDEN}{NORWAY}", 4, f"{NORWAY}…"),
        (f"{NORWAY}{SWEDEN}{NORWAY}", 5, f"{NORWAY}{SWEDEN}…"),
        (f"ab{FARMER}cd", 4, "ab…"),
        (f"ab{FARMER}cd", 5, "ab…"),
        (f"ab{FARMER}cd", 6, f"ab{FARMER}…"),
        (f"{FAMILY}{FAMILY}", 4, "…"),
        (f"{FAMILY}{FAMILY}", 6, f"{FAMILY}…"),
        ("ab1\ufe0f\u20e3cd", 5, "ab…"),
        ("ab1\ufe0f\u20e3cd", 6, "ab1\ufe0f\u20e3…"),
        ("cafe\u0301s", 5, "caf…"),
        ("ab\U0001f44b\U0001f3fdcd", 4, "ab…"),
        ("नमस्ते जी", 4, "नम…"),
        (f"ab{ENGLAND}cd", 6, "ab…"),
    ],
)
def test_a_cut_steps_back_to_where_a_reader_sees_a_whole_character(text: str, limit: int, expected: str) -> None:
    """Case T06: pairs, flags, ZWJ families, keycaps, marks, tags."""
    assert cut(text, limit) == expected


@given(st.text(), st.integers(1, 40))
def test_a_cut_text_is_within_its_limit_and_begins_as_the_text_does(text: str, limit: int) -> None:
    """Case T06: nothing is invented but the ellipsis."""
    shown = cut(text, limit)
    assert len(shown) <= limit
    assert shown == text or (len(text) > limit and shown.endswith("…") and text.startswith(shown[:-1]))


def test_a_long_run_of_marks_is_cut_inside_rather_than_dropped() -> None:
    """Case T06: a text of nothing but marks does not vanish."""
    text = "e" + "\u0301" * 500
    assert boundary(text, 100) == 100
    assert cut(text, 101) == text[:100] + "…"


@pytest.mark.parametrize("end", [3, 4, 100])
def test_the_boundary_of_a_text_that_fits_is_its_end(end: int) -> None:
    """Nothing to cut, nothing cut."""
    assert boundary("abc", end) == 3
