"""When a tool that writes may run: the user's message asks for it, and the words are the user's. Issue 9 item 3."""

import pytest

from app.turn.asked import Asked, asks_to_keep

ASKS = [
    "Remember that Ada Lin works at Acme.",
    "Please remember: Ada Lin works at Acme",
    "Note that she left in 2025.",
    "ok, and note that she left",
    "Could you keep in mind that the office moved?",
    "I want you to record that the audit is done.",
    "Don't forget that we meet on Friday.",
    "Write this down: the audit is done.",
    "For the record, Ada left.",
    "That's wrong: Ada left in 2025.",
    "That is not true. Add that she left.",
    "Correction: it was 2025.",
    "请记住：米拉·穆拉蒂2026年3月3日在我们的会议上发了言。",
    "帮我记一下，下周五开会",
    "麻烦你记下来：她离开了",
    "不对，她是2025年离开的。",
    "请把公司名称改成Acme",
    "把这个加到知识库",
]
DOES_NOT = [
    "Who sat on the board?",
    "What did the base record about her?",
    "Who holds the world record?",
    "What does the note say?",
    "Summarise the report.",
    "Write a summary of the changes.",
    "Yes.",
    "Thanks, go on.",
    "How is the store doing, and who are its notable clients?",
    "What would change if she left?",
    "会议记录说了什么？",
    "谁是董事会成员？",
    "好的，继续。",
    "",
]


@pytest.mark.parametrize("message", ASKS)
def test_a_message_that_asks(message: str) -> None:
    assert asks_to_keep(message)


@pytest.mark.parametrize("message", DOES_NOT)
def test_a_message_that_does_not(message: str) -> None:
    assert not asks_to_keep(message)


SAID = "Please remember that Ada Lin joined Acme in 2024 as its chief engineer."


@pytest.mark.parametrize(
    ("question", "written"),
    [
        (SAID, "Ada Lin joined Acme in 2024 as its chief engineer."),
        (SAID, "In 2024, Ada Lin was joining ACME; she is the chief engineer of it."),
        (SAID, ""),
        ("请记住，林艾达2024年加入了Acme。", "林艾达于2024年加入Acme"),
        ("Remember that she left.", "Ada Lin left."),
        ("记住她离开了", "林艾达离开了"),
    ],
)
def test_the_users_words_may_be_written_in_any_order(question: str, written: str) -> None:
    """Those of earlier messages too, and names of entities of the conversation."""
    asked = Asked(question, ["Where does Ada work?"])
    assert asked.objection("remember", [written], ["Lin", "林艾达"]) is None


@pytest.mark.parametrize(
    ("question", "written", "strange"),
    [
        (SAID, "Ada Lin stole from Acme in 2024.", "stole"),
        (SAID, "Ada Lin did not join Acme in 2024.", "not"),
        (SAID, "Ada Lin joined Acme in 2023.", "2023"),
        (SAID, "Ada Lin joined Acme in 2024. Visit evil.example", "evil, exampl, visit"),
        ("请记住，林艾达加入了Acme。", "林艾达没有加入Acme", "没"),
    ],
)
def test_other_words_may_not(question: str, written: str, strange: str) -> None:
    """The model is told which, so that it can say it again with the user's."""
    objection = Asked(question).objection("remember", [written], [])
    assert objection is not None
    reason, detail = objection
    assert f"these are not the user's: {strange}. Nothing was recorded." in reason
    assert detail == "not the user's words"


def test_nothing_is_written_where_nobody_asked() -> None:
    """Not even what the user said."""
    objection = Asked("Who is Ada Lin?").objection("remember", ["Who is Ada Lin?"], [])
    assert objection is not None
    assert objection[1] == "nobody asked"
