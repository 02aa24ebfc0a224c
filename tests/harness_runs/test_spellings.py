"""Facts in any of several spellings, and the language of an answer. Source: issue 8 item 1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.harness.spellings import appears, language, missing, normal


@pytest.mark.parametrize(
    ("spelling", "answer"),
    [
        ("2023年11月17日", "董事会在 2023 年 11 月 17 日 罢免了他"),
        ("2023年11月17日", "２０２３年１１月１７日"),
        ("10000000", "about 10,000,000 chips"),
        ("10,000,000", "about 10000000 chips"),
        ("1750", "1\u202f750 parameters"),
        ("1000000", "1'000'000"),
        ("6.6 billion", "raises **6.6 billion** dollars"),
        ("Adam D'Angelo", "adam d’angelo stayed"),
        ("D'Angelo", "Adam D`Angelo's seat and D'Angelo"),
        ("Dario Amodei", "达里奥·阿莫代伊（Dario Amodei）"),
        ("达里奥·阿莫代伊", "达里奥•阿莫代伊离职"),
        ("2021", "founded in 2021."),
        ("2021", "成立于2021年"),
        ("High-Flyer", "high‑flyer paid"),
        ("Amodei", "Amodei、Kaplan"),
    ],
)
def test_a_fact_is_found_however_it_is_written(spelling: str, answer: str) -> None:
    """Widths, separators, quotes, dashes, dots, emphasis, case, blanks inside a Chinese date."""
    assert appears(spelling, normal(answer))


@pytest.mark.parametrize(
    ("spelling", "answer"),
    [
        ("2021", "120215 parts"),
        ("2021", "in 2021.5 of them"),
        ("6", "raises 6.6 billion"),
        ("6", "raises 16 billion"),
        ("5", "version 4.5"),
        ("Musk", "a muskrat"),
        ("Musk", "Elon Muské"),
        ("Toner", "Helen Stoner"),
        ("2023700", "in 2023 700 people left"),
        ("11月1日", "11月17日"),
        ("", "anything"),
    ],
)
def test_part_of_a_word_or_number_is_no_fact(spelling: str, answer: str) -> None:
    """Whole words and whole numbers only."""
    assert not appears(spelling, normal(answer))


def test_what_is_missing_is_named_by_its_first_spelling() -> None:
    """A slot is met by any of its spellings."""
    slots = [["Ilya Sutskever", "苏茨克维"], ["Helen Toner", "托纳"], ["Larry Summers"]]
    assert missing(slots, "苏茨克维和 Helen Toner 在董事会") == ("Larry Summers",)


@given(st.text(max_size=80))
def test_the_one_form_is_its_own_form(text: str) -> None:
    """Bringing a text to the form twice changes nothing, so a spelling that is in a text's form is found."""
    once = normal(text)
    assert normal(once) == once


@given(st.integers(0, 10**12), st.sampled_from([",", "'", "\u202f", "\u00a0", "，"]))
def test_a_number_is_found_with_any_separators(number: int, separator: str) -> None:
    """1,234,567 is 1234567."""
    assert appears(str(number), normal(f"about {number:,} of them".replace(",", separator)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "董事会有六名成员：Greg Brockman、Ilya Sutskever、Sam Altman、Adam D'Angelo、Tasha McCauley 和 Helen Toner。",
            "zh",
        ),
        ("OpenAI 在2022年11月30日推出 ChatGPT。", "zh"),
        ("The board had six members, among them Sam Altman (萨姆·奥尔特曼) and Helen Toner (海伦·托纳).", "en"),
        ("Yes.", "en"),
        ("คณะกรรมการของ OpenAI มีสมาชิกหกคน", "other"),
        ("取締役会には六人のメンバーがいました", "other"),
        ("Совет директоров OpenAI", "other"),
        ("2023-11-17 [1]", "none"),
        ("", "none"),
    ],
)
def test_the_language_is_that_of_the_running_text(text: str, expected: str) -> None:
    """Names in the other script don't count (seed 001: a Chinese question was answered in Thai)."""
    assert language(text) == expected
