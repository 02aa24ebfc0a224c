"""Scripts: those that are shipped, and what is said about those that can't be used. Source: issue 8 item 1."""

from pathlib import Path

import pytest

from app.harness import script
from app.harness.script import Evidence, Script, ScriptError
from app.harness.spellings import appears, normal

ROOT = Path(__file__).parents[2]
SAMPLE = normal("\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "sample").iterdir())))
NAMES = ("fifteen", "twelve", "recall")

GOOD = """\
name: mine
about: one turn
conversations:
  - name: board
    turns:
      - question: Who?
        expect:
          evidence: cited
"""


def shipped(name: str) -> Script:
    return script.load(script.find(name))


def test_the_scripts_are_shipped_in_both_languages() -> None:
    """Each name has a Chinese and an English variant; without a language it is the seeds' own."""
    assert script.shipped() == tuple(sorted(f"{name}-{language}" for name in NAMES for language in ("en", "zh")))
    assert shipped("fifteen") == shipped("fifteen-zh")
    for name in script.shipped():
        assert shipped(name).name == name


@pytest.mark.parametrize("language", ["zh", "en"])
def test_fifteen_is_what_the_seed_measured(language: str) -> None:
    """Seed 001: fifteen turns, of them eight about data, in conversations with a past; twelve are fresh questions."""
    fifteen, twelve = shipped(f"fifteen-{language}"), shipped(f"twelve-{language}")
    about = [turn.about for conversation in fifteen.conversations for turn in conversation.turns]
    assert (len(about), about.count("base")) == (15, 8)
    assert [len(conversation.turns) for conversation in twelve.conversations] == [1] * 12
    assert {turn.about for conversation in twelve.conversations for turn in conversation.turns} == {"base"}


@pytest.mark.parametrize("name", NAMES)
def test_the_variants_have_the_same_shape(name: str) -> None:
    """Conversations, their turns and what these are about agree, so that the languages can be compared."""
    shapes = [
        [(c.name, [turn.about for turn in c.turns]) for c in shipped(f"{name}-{language}").conversations]
        for language in ("zh", "en")
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", [f"{name}-{language}" for name in NAMES for language in ("en", "zh")])
def test_every_expected_fact_is_in_the_sample(name: str) -> None:
    """The first spelling of each slot stands in a document of the sample base."""
    slots = {slot[0] for c in shipped(name).conversations for turn in c.turns for slot in turn.expect.facts}
    assert [spelling for spelling in sorted(slots) if not appears(spelling, SAMPLE)] == []


def test_a_scalar_is_the_text_that_stands_there() -> None:
    """Dates, numbers and words such as `no` need no quotes; one entry stands for a list of it."""
    text = GOOD.replace("cited", "[cited, none]") + "          facts: [2023-11-17, [no, 07], 1.50]\n"
    expected = script.parse(text, "mine").conversations[0].turns[0].expect
    both: tuple[Evidence, ...] = ("cited", "none")
    assert expected.evidence == both
    assert expected.facts == (("2023-11-17",), ("no", "07"), ("1.50",))


def test_the_hash_is_of_what_is_asked_and_expected() -> None:
    """Comments and the order of keys don't change it; a word of a question does."""
    plain = script.parse(GOOD, "a")
    moved = GOOD.replace("name: mine\nabout: one turn\n", "about: one turn  # said\nname: mine\n")
    assert script.parse(moved, "b").hash == plain.hash
    assert script.parse(GOOD.replace("Who?", "Whom?"), "c").hash != plain.hash


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("cited", "sited"),
            (
                "f.yaml:8: conversations.1.turns.1.expect.evidence.1: 'sited' was given; allowed is "
                "'cited', 'uncited', 'skipped' or 'none'"
            ),
        ),
        (("evidence", "evidenc"), "f.yaml:8: conversations.1.turns.1.expect.evidenc is no field here"),
        (("question: Who?", "about: base"), "f.yaml:6: conversations.1.turns.1.question is missing"),
        (
            ("question: Who?", "question: ''"),
            ("f.yaml:6: conversations.1.turns.1.question: '' was given; allowed is text that isn't blank"),
        ),
        (
            ("name: board", "name: The Board"),
            (
                "f.yaml:4: conversations.1.name: 'The Board' was given; allowed is "
                "text of the form ^[a-z0-9][a-z0-9-]{0,60}$"
            ),
        ),
        (
            ("evidence: cited", "sources_at_least: many"),
            ("f.yaml:8: conversations.1.turns.1.expect.sources_at_least: 'many' was given; allowed is a whole number"),
        ),
        (
            ("evidence: cited", "reuses_ids_of: 1"),
            "f.yaml:4: conversations.1: turn 1 expects ids of turn 1; allowed is an earlier turn's number",
        ),
        (("about: one turn", "name: twice"), "f.yaml:2: name is given twice"),
        (("about: one turn", "about: [one"), "f.yaml:3: isn't YAML: expected ',' or ']', but got ':'"),
        (("about: one turn", "[a]: b"), "f.yaml:2: a field's name must be text"),
        (
            ("evidence: cited", "must_run: [a b]"),
            (
                "f.yaml:8: conversations.1.turns.1.expect.must_run.1: 'a b' was given; "
                "allowed is text of the form ^[A-Za-z0-9_-]{1,64}$"
            ),
        ),
    ],
)
def test_a_script_that_cannot_be_used_says_where_and_what_is_allowed(change: tuple[str, str], said: str) -> None:
    """File, line, path, what stands there, what is allowed."""
    with pytest.raises(ScriptError) as refused:
        script.parse(GOOD.replace(*change), "f.yaml")
    assert str(refused.value) == said


def test_two_conversations_of_one_name_are_refused() -> None:
    """Names are what turns are paired by."""
    twice = GOOD + GOOD.partition("conversations:\n")[2]
    with pytest.raises(ScriptError, match=r"^f:3: conversations: two conversations are named 'board'; allowed is each"):
        script.parse(twice, "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f:1: is empty; allowed are `name`, `about` and `conversations`"),
        ("just text", "f:1: the script: 'just text' was given; allowed is a mapping of fields"),
        ("a: &x [*x]", "f: has more parts than a script may (50000, 20 deep)"),
        (
            (
                "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
            ),
            "f: has more parts than a script may (50000, 20 deep)",
        ),
        ("[" * 1_500, "f: is nested deeper than a script may be"),
        ("a: !!python/object:os.system x", "f:1: name is missing"),
    ],
    ids=["empty", "text", "endless", "bomb", "deep", "tag"],
)
def test_hostile_yaml_is_refused_in_a_sentence(text: str, said: str) -> None:
    """Aliases that grow or never end, deep nesting, tags: nothing is run and nothing runs away."""
    with pytest.raises(ScriptError) as refused:
        script.parse(text, "f")
    assert str(refused.value) == said


def test_a_name_that_is_no_script_names_those_that_are(tmp_path: Path) -> None:
    """An unknown name, a path without a file, a file that isn't text."""
    with pytest.raises(
        ScriptError, match=r"no script 'sixteen'; allowed is one of fifteen-en, fifteen-zh, .*or a path"
    ):
        script.find("sixteen")
    with pytest.raises(ScriptError, match=r"none\.yaml: can't be read: No such file"):
        script.load(script.find(str(tmp_path / "none.yaml")))
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ScriptError, match=r"bytes\.yaml: isn't UTF-8 \(byte 6\)"):
        script.load(tmp_path / "bytes.yaml")
