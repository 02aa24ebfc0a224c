"""The filter between a model's text and a reader: what it holds, what it lets go, and that cutting changes nothing."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.turn.markup import AnswerFilter

BARS = "|｜‖¦∣"
DSML = '<｜DSML｜tool_calls><｜DSML｜invoke name="find_entities"></｜DSML｜invoke></｜DSML｜tool_calls>'
CALL = '<tool_call>{"name":"find_entities","arguments":{"name":"Acme"}}</tool_call>'

FRAGMENTS = [
    *"<<<>[[]|｜‖▁/\n\n \t`a7中🦀",
    "```",
    "````",
    "~~~",
    "``",
    "```xml\n",
    "DSML",
    "dsml",
    "tool_call",
    "tool_calls",
    "tool▁calls▁begin",
    "tool_calls_section_begin",
    "<tool_call>",
    "<｜DSML｜",
    "<|python_tag|>",
    "function=",
    "<function_calls>",
    "invoke name=",
    "[TOOL_CALLS]",
    "[[7]]",
    "word ",
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join) | st.text()


def filtered(pieces: Iterable[str]) -> tuple[str, bool]:
    """What goes out for these pieces in all, and whether markup was found."""
    text_filter = AnswerFilter()
    out = "".join(text_filter.feed(piece) for piece in pieces)
    return out + text_filter.finish(), text_filter.found_markup


def sliced(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 4096])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Checking. {DSML}", "Checking. "),
        (DSML, ""),
        (DSML.replace("｜", "‖"), ""),
        (DSML.replace("｜", "｜｜"), ""),
        (DSML.replace("｜", "|"), ""),
        (f"Checking. {DSML.replace('｜', '|')}", "Checking. "),
        ("Checking. <DSML｜tool_calls>", "Checking. "),
        ("So < ｜DSML｜invoke", "So "),
        ("x <|tool_calls_section_begin|><|tool_call_begin|>", "x "),
        ("x <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "x "),
        ("x <|python_tag|>search()", "x "),
        (CALL, ""),
        (f"Checking.\n{CALL}", "Checking.\n"),
        (f"Checking.\n  {CALL}", "Checking.\n  "),
        (f"Checking.\r\n{CALL}", "Checking.\r\n"),
        ("a\n<TOOL_CALL>{}", "a\n"),
        ("a\n<tool_calls>", "a\n"),
        ("a\n<function=search>", "a\n"),
        ('a\n<invoke name="x">', "a\n"),
        ('a\n<minimax:tool_call><invoke name="x">', "a\n"),
        ('a\n[TOOL_CALLS] [{"name": "x"}]', "a\n"),
        (f"```\ncode\n```\n{CALL}", "```\ncode\n```\n"),
        (f"```inline``` code\n{CALL}", "```inline``` code\n"),
        (f"`x` and {DSML}", "`x` and "),
        (f"~~~\n```\n~~~\n{CALL}", "~~~\n```\n~~~\n"),
    ],
)
def test_control_markup_and_what_follows_it_is_held_back(text: str, expected: str, size: int) -> None:
    """Case P10, A to C: no markup is let out, however it was cut; what came before it stays."""
    assert filtered(sliced(text, size)) == (expected, True)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 4096])
@pytest.mark.parametrize(
    "text",
    [
        f"The format is:\n```xml\n{CALL}\n{DSML}\n```\nand so on.",
        f"~~~\n{CALL}\n~~~",
        f"````\n```\n{CALL}\n```\n````\n",
        f"```md\n```xml\n{CALL}\n```\n",
        f"Models write `{CALL}` or `{DSML}`.",
        "Two ticks: ``<｜DSML｜x> ` y``.",
        "A tag such as <tool_call> in a sentence | and a bar.",
        "| cell | <tool_calls>| cell |",
        "a < b, c <d, e<tools, f <t",
        "<table><tr><td>1</td></tr></table>",
        "<toolbar> and <function> and <invoke>",
        "[1] first\n[note] second a[0] [[7]] [TOOLS]",
        "a<|b|>c",
        "if x<|y",
        "List:\n- [tool_call is a word",
        "2 < 3\n<",
        "unfinished <｜DSM",
    ],
)
def test_a_text_that_only_looks_like_markup_stays_readable(text: str, size: int) -> None:
    """Case P10, D, and case T03: code that quotes the markup, comparisons, tags, tables and citations."""
    assert filtered(sliced(text, size)) == (text, False)


@pytest.mark.parametrize("pieces", [[" [", "[", "7", "]", "]."], list(" [[7]]."), list("[note] a[0]")])
def test_brackets_inside_a_line_are_let_go_at_once(pieces: list[str]) -> None:
    """Case T03: ordinary brackets and citations wait for nothing."""
    text_filter = AnswerFilter()
    assert text_filter.feed("See") == "See"
    assert [text_filter.feed(piece) for piece in pieces] == pieces


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<["), min_size=1))
def test_text_without_an_opening_character_is_let_go_at_once(text: str) -> None:
    """A delta that can't be markup is never delayed."""
    text_filter = AnswerFilter()
    assert text_filter.feed("x") == "x"
    assert text_filter.feed(text) == text


@given(st.text())
def test_blanks_before_the_first_visible_character_are_dropped(text: str) -> None:
    """A model turn of blanks publishes nothing, and the rest is kept whole."""
    assert filtered(["  ", "\n", *text.replace("<", "").replace("[", "")]) == (
        text.replace("<", "").replace("[", "").lstrip(),
        False,
    )


@settings(max_examples=500)
@given(TEXTS, st.data())
def test_the_output_does_not_depend_on_how_the_text_was_cut(text: str, data: st.DataObject) -> None:
    """Case T04: pieces of 1, 2, 7 and 4096 characters and random ones give what one piece gives."""
    whole = filtered([text])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12), label="cuts"))
    random = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert [filtered(sliced(text, size)) for size in (1, 2, 7, 4096)] == [whole] * 4
    assert filtered(random) == whole


@settings(max_examples=500)
@given(TEXTS)
def test_the_output_begins_as_the_text_does_and_holds_no_opening_outside_code(text: str) -> None:
    """Case P10: judged by a second reading of the whole output, with regular expressions."""
    out, found = filtered([text])
    assert text.lstrip().startswith(out)
    assert found or out == text.lstrip()
    assert openings_outside_code(out) == []


_BARRED = re.compile(rf"<[{BARS}]+\s?(?:dsml|tool[_▁]calls?[_▁](?:section[_▁])?begin|python_tag)", re.IGNORECASE)
_AT_START = re.compile(rf"^[ \t{BARS}]*(?:<(?:tool_calls?>|function_calls>|function=|invoke name=)|\[TOOL_CALLS\])")
_FENCE = re.compile(r"^\s*(`{3,}(?=[^`]*$)|~{3,})(.*)$", re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:.*?(?<!`)\1(?!`)|.*$)", re.DOTALL)


def openings_outside_code(text: str) -> list[str]:
    """Markup openings of a finished text, outside fences and code spans (which end with their line)."""
    found: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            prose = _SPAN.sub("x", line)
            found += [match.group() for pattern in (_BARRED, _AT_START) for match in pattern.finditer(prose)]
    return found
