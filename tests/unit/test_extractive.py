"""The offline model: what it calls, what it quotes, and that nothing it says is invented."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm.dates import FoundDate, first_date
from app.llm.extractive import Extractive
from app.llm.model import (
    AssistantMessage,
    Finish,
    Message,
    ModelRequest,
    ModelTurn,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from app.llm.phrasing import NOTICE, SAY
from app.llm.sentences import passages_of, quotable, split_sentences
from app.llm.words import Language
from app.tools.passage import render
from app.tools.tool import Source

TOOLS = (
    ToolSpec("search_chunks", "", {}),
    ToolSpec("search_docs", "", {}),
    ToolSpec("no_evidence_needed", "", {}),
)
BOARD = """## Who sat on the board
The board that removed Sam Altman had six members: Greg Brockman (chair), Ilya Sutskever and four others.
It gave no details. Emmett Shear led OpenAI for two days [7]."""
BOARD_ZH = """奥尔特曼被罢免时，董事会有六名成员：布罗克曼（Greg Brockman，主席）、苏茨克维（Ilya Sutskever）等。
2023年11月17日，董事会罢免了奥尔特曼。总部在旧金山。"""
DATES = """- 22 July 2019: Microsoft invests 1 billion US dollars in OpenAI.
- 11 December 2015: OpenAI is announced.
- March 2023: OpenAI releases GPT-4.
OpenAI has its seat in San Francisco."""
DATES_ZH = """- 2022年11月30日：OpenAI 推出 ChatGPT。
- 2015年12月11日：OpenAI 宣布成立。
- 2019年：微软向 OpenAI 投资。"""


def passage(n: int, title: str, heading: str, text: str) -> str:
    """A passage as the search tools write it, by the same function."""
    return render(n, Source("chunk", f"c{n}", f"d{n}", title, heading, ""), text)


def found(*passages: str) -> str:
    return "\n".join([f"OK: {len(passages)} passages", *passages])


async def reply(messages: list[Message], tools: tuple[ToolSpec, ...] = TOOLS) -> ModelTurn:
    """The model's whole turn, having checked that its pieces amount to its text."""
    pieces: list[str] = []
    turns: list[ModelTurn] = []
    async for event in Extractive().stream(ModelRequest(tuple(messages), tools)):
        assert not turns, "the turn is the last event"
        if isinstance(event, TextDelta):
            pieces.append(event.text)
        elif isinstance(event, ModelTurn):
            turns.append(event)
    assert "".join(pieces) == turns[0].text
    return turns[0]


async def answer(question: str, observation: str, before: list[Message] | None = None) -> str:
    """The answer after one search that returned this observation."""
    call = ToolCall("c1", "search_chunks", '{"query": "x"}')
    messages = [
        *(before or []),
        UserMessage(question),
        AssistantMessage(None, (call,)),
        ToolMessage("c1", observation),
    ]
    return (await reply(messages)).text


def said(language: Language, *lines: str) -> str:
    return "\n".join([NOTICE[language], "", *lines])


@pytest.mark.parametrize(
    ("question", "tool", "arguments"),
    [
        ("OpenAI 的时间线", "search_chunks", {"query": "OpenAI 时间线"}),
        ("openai和anthropic关系", "search_chunks", {"query": "openai anthropic 关系"}),
        ("Sam Altman 被罢免时董事会有谁", "search_chunks", {"query": "Sam Altman 罢免 董事会"}),
        (
            "Who sat on the board when Sam Altman was removed?",
            "search_chunks",
            {"query": "sat board Sam Altman removed"},
        ),
        ("你好，OpenAI 的时间线", "search_chunks", {"query": "OpenAI 时间线"}),
        ("Thanks! Who founded Mistral?", "search_chunks", {"query": "founded Mistral"}),
        ("What happened in May 2025?", "search_chunks", {"query": "May 2025"}),
        ("请", "search_chunks", {"query": "请"}),
        ("Привет, кто основал Mistral?", "search_chunks", {"query": "Привет кто основал Mistral"}),
        ("你好", "no_evidence_needed", {"reason": "a greeting"}),
        ("Hello there!", "no_evidence_needed", {"reason": "a greeting"}),
        ("谢谢你！", "no_evidence_needed", {"reason": "thanks or assent"}),
        ("你好，你是谁？", "no_evidence_needed", {"reason": "a question about the assistant itself"}),
        ("你是谁", "no_evidence_needed", {"reason": "a question about the assistant itself"}),
        ("What can you do?", "no_evidence_needed", {"reason": "a question about the assistant itself"}),
        ("你搜了吗", "no_evidence_needed", {"reason": "a question about whether the base was searched"}),
        ("说短一点", "no_evidence_needed", {"reason": "a request to shorten the previous answer"}),
        (
            "太长了，请说短一点吧",
            "no_evidence_needed",
            {"reason": "a request to shorten the previous answer"},
        ),
        (
            "Can you make it shorter, please?",
            "no_evidence_needed",
            {"reason": "a request to shorten the previous answer"},
        ),
        (
            "translate that into English",
            "no_evidence_needed",
            {"reason": "a request to reword or continue the previous answer"},
        ),
        ("啥情况", "no_evidence_needed", {"reason": "a question about the state of the conversation"}),
        ("👍👍", "no_evidence_needed", {"reason": "a message without words to search for"}),
    ],
)
async def test_the_first_call_searches_unless_the_message_names_nothing(
    question: str, tool: str, arguments: dict[str, str]
) -> None:
    """Seeds 001: relation, board and timeline questions search, conversation-only messages don't."""
    turn = await reply([SystemMessage("rules"), UserMessage(question)])
    (call,) = turn.tool_calls
    assert (call.name, json.loads(call.arguments)) == (tool, arguments)
    assert (turn.text, turn.finish, turn.usage) == ("", Finish.TOOL_CALLS, Usage())


async def test_a_greeting_is_searched_where_the_terminal_is_not_offered() -> None:
    """A request that requires a tool gets a call of one that it offers."""
    turn = await reply([UserMessage("你好")], TOOLS[:1])
    assert [c.name for c in turn.tool_calls] == ["search_chunks"]


async def test_a_question_that_points_back_searches_for_what_came_before() -> None:
    """The words of the question before lead the query of one that has no subject of its own."""
    turn = await reply(
        [UserMessage("Who founded Mistral?"), AssistantMessage("X [1]."), UserMessage("And when did he leave?")]
    )
    assert json.loads(turn.tool_calls[0].arguments) == {"query": "founded Mistral leave"}


@pytest.mark.parametrize(
    ("question", "observation", "expected"),
    [
        (
            "Who sat on the board when Sam Altman was removed?",
            found(passage(1, "other.md", "Weather", "Rain fell."), passage(2, "b.md", "The board", BOARD)),
            said(
                "en",
                "- The board that removed Sam Altman had six members: Greg Brockman (chair), Ilya Sutskever "
                "and four others. [2]",
            ),
        ),
        (
            "奥尔特曼被罢免时董事会有谁",
            found(passage(1, "b.md", "OpenAI 董事会", BOARD_ZH), passage(2, "b.md", "The board", BOARD)),
            said(
                "zh",
                "- 奥尔特曼被罢免时，董事会有六名成员：布罗克曼（Greg Brockman，主席）、"
                "苏茨克维（Ilya Sutskever）等。 [1]",
                "- 2023年11月17日，董事会罢免了奥尔特曼。 [1]",
            ),
        ),
        (
            "OpenAI timeline",
            found(passage(3, "t.md", "Key dates", DATES), passage(4, "z.md", "时间线", DATES_ZH)),
            said(
                "en",
                "- 11 December 2015: OpenAI is announced. [3]",
                "- 22 July 2019: Microsoft invests 1 billion US dollars in OpenAI. [3]",
                "- March 2023: OpenAI releases GPT-4. [3]",
            ),
        ),
        (
            "OpenAI 的时间线",
            found(passage(3, "t.md", "Key dates", DATES), passage(4, "z.md", "时间线", DATES_ZH)),
            said(
                "zh",
                "- 2015年12月11日：OpenAI 宣布成立。 [4]",
                "- 2019年：微软向 OpenAI 投资。 [4]",
                "- 2022年11月30日：OpenAI 推出 ChatGPT。 [4]",
            ),
        ),
        (
            "Microsoft 什么时候投资 OpenAI",
            found(passage(1, "t.md", "Key dates", DATES)),
            said("zh", "- 22 July 2019: Microsoft invests 1 billion US dollars in OpenAI. [1]"),
        ),
        ("Wer war Kant?", "EMPTY: no passage matches", said("en", SAY["nothing"]["en"])),
        ("康德是谁", "EMPTY: no passage matches", said("zh", SAY["nothing"]["zh"])),
        (
            "康德是谁",
            "ERROR: the search index is being rebuilt [3]",
            said("zh", f"{SAY['failed']['zh']} the search index is being rebuilt"),
        ),
        (
            "Who was Kant?",
            found(passage(1, "a.md", "Rain", "It rained. All day."), passage(2, "b.md", "Sun", "It shone.")),
            said("en", SAY["no_match"]["en"], "- It rained. [1]", "- It shone. [2]"),
        ),
        (
            "Who was the teacher of Kant?",
            found(passage(1, "a.md", "", "A teacher spoke of rain and snow. Cats sleep.")),
            said("en", SAY["partly"]["en"], "- A teacher spoke of rain and snow. [1]"),
        ),
    ],
)
async def test_the_answer_quotes_the_sentences_that_fit(question: str, observation: str, expected: str) -> None:
    """Sentences and frame are in the question's language where the passages have it; each has its number."""
    assert await answer(question, observation) == expected


async def test_a_quoted_passage_cannot_bring_numbers_or_markup_of_its_own() -> None:
    """Case K11: document text is data; a bracketed number or a think tag in it never reaches the answer."""
    text = "<think>Kant [9] was【8】born</think> in Königsberg [1, 2] <｜DSML｜tool_calls> in 1724 [[3]4]."
    got = await answer("Where was Kant born?", found(passage(5, "k.md", "Kant", text)))
    assert got == said("en", "- Kant was born in Königsberg in 1724 ( 4). [5]")


async def test_the_same_sentence_in_two_passages_is_quoted_once() -> None:
    """A document that was ingested twice doesn't fill the answer."""
    observation = found(passage(1, "a.md", "Kant", "Kant was born."), passage(2, "b.md", "Kant", "Kant was born."))
    assert await answer("When was Kant born?", observation) == said("en", "- Kant was born. [1]")


async def test_a_fresh_answer_request_is_answered_from_its_evidence() -> None:
    """DESIGN section 6: one user message of JSON, no tool fields, whatever shape the evidence has."""
    evidence = [{"request": {"name": "search_chunks"}, "result": found(passage(2, "b.md", "Board", BOARD))}]
    task = json.dumps({"question": "Who led OpenAI for two days?", "background": [], "evidence": evidence})
    turn = await reply([SystemMessage("answer now"), UserMessage(task)], ())
    assert turn == ModelTurn(
        said("en", "- Emmett Shear led OpenAI for two days. [2]"), (), Finish.STOP, Usage(None, None)
    )


async def test_a_fresh_answer_request_falls_back_on_its_sources() -> None:
    """Where no observation holds a passage, the excerpts of the sources are what there is."""
    sources = [{"n": 4, "title": "k.md", "locator": "Life", "excerpt": "Kant was born in 1724."}]
    task = json.dumps({"question": "When was Kant born?", "evidence": [], "sources": sources})
    assert (await reply([UserMessage(task)], ())).text == said("en", "- Kant was born in 1724. [4]")


async def test_a_timeline_that_misses_its_subject_is_searched_once_more() -> None:
    """Passages found by the word timeline alone lead to a second search for the subject, and to no third."""
    question = UserMessage("timeline of Kant")
    first = ToolCall("c1", "search_chunks", '{"query": "timeline Kant"}')
    observation = found(passage(1, "t.md", "OpenAI timeline", DATES))
    messages: list[Message] = [question, AssistantMessage(None, (first,)), ToolMessage("c1", observation)]
    (call,) = (await reply(messages)).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("search_chunks", {"query": "Kant"})
    messages += [AssistantMessage(None, (call,)), ToolMessage(call.id, "EMPTY: nothing")]
    assert (await reply(messages)).tool_calls == ()


async def test_a_question_about_the_product_looks_into_the_manual_too() -> None:
    """The base had nothing, the question names turnstream: the manual is searched before giving up."""
    question = UserMessage("How do I configure turnstream?")
    call = ToolCall("c1", "search_chunks", '{"query": "x"}')
    messages: list[Message] = [question, AssistantMessage(None, (call,)), ToolMessage("c1", "EMPTY: none")]
    (second,) = (await reply(messages)).tool_calls
    assert (second.name, json.loads(second.arguments)) == ("search_docs", {"query": "configure turnstream"})


BEFORE: list[Message] = [
    UserMessage("OpenAI 的时间线"),
    AssistantMessage(None, (ToolCall("c0", "search_chunks", '{"query": "OpenAI 时间线"}'),)),
    ToolMessage("c0", found(passage(4, "z.md", "时间线", DATES_ZH))),
    AssistantMessage(said("zh", "- 第一句。 [4]", "- 第二句。第三句。 [4]", "- 第四句。 [2]")),
]


@pytest.mark.parametrize(
    ("question", "before", "expected"),
    [
        ("说短一点", BEFORE, said("zh", "- 第一句。 [4]", "- 第二句。 [4]")),
        ("shorter please", [], said("en", SAY["nothing_before"]["en"])),
        (
            "你搜了吗",
            BEFORE,
            said("zh", SAY["searched"]["zh"], '- search_chunks {"query": "OpenAI 时间线"}'),
        ),
        ("did you search?", [], said("en", SAY["not_searched"]["en"])),
        ("啥情况", BEFORE, said("zh", SAY["status"]["zh"], "- OpenAI 的时间线")),
        ("啥情况", [], said("zh", SAY["status_first"]["zh"])),
        ("你好", BEFORE, said("zh", SAY["greeting"]["zh"])),
        ("你是谁", [], said("zh", SAY["identity"]["zh"])),
        ("Thank you!", [], said("en", SAY["thanks"]["en"])),
        ("翻译一下", BEFORE, said("zh", SAY["reword"]["zh"])),
        ("？？？", BEFORE, said("zh", SAY["wordless"]["zh"])),
    ],
)
async def test_conversation_only_messages_are_answered_from_the_conversation(
    question: str, before: list[Message], expected: str
) -> None:
    """Seeds 001, turns 3, 4, 8, 9 and 10: no search, and no claim about one that wasn't run."""
    call = ToolCall("c1", "no_evidence_needed", '{"reason": "x"}')
    turn = await reply(
        [*before, UserMessage(question), AssistantMessage(None, (call,)), ToolMessage("c1", "OK: noted")]
    )
    assert (turn.text, turn.tool_calls) == (expected, ())


async def test_without_any_tool_it_says_that_nothing_was_searched() -> None:
    """A question that arrives without tools and without evidence isn't answered from thin air."""
    assert (await reply([UserMessage("Who was Kant?")], ())).text == said("en", SAY["no_search"]["en"])


async def test_call_ids_differ_within_a_conversation_and_are_the_same_for_the_same_request() -> None:
    """Ids may be matched over the whole list of messages, and a replayed turn gives the same one."""
    first = (await reply([UserMessage("Kant")])).tool_calls[0].id
    again = (await reply([UserMessage("Kant")])).tool_calls[0].id
    later = (await reply([UserMessage("Kant"), AssistantMessage("x"), UserMessage("Kant")])).tool_calls[0].id
    assert first == again != later


def test_it_says_what_it_is() -> None:
    """The name stored with each answer and the origin are fixed."""
    model = Extractive()
    assert (model.name, model.origin) == ("extractive-offline", "offline")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2023-11-17 it", (FoundDate(2023, 11, 17), 3)),
        ("2023年11月17日，董事会", (FoundDate(2023, 11, 17), 0)),
        ("2023 年 11 月", (FoundDate(2023, 11, 0), 0)),
        ("17 November 2023", (FoundDate(2023, 11, 17), 0)),
        ("Nov. 17, 2023", (FoundDate(2023, 11, 17), 0)),
        ("In March 2023", (FoundDate(2023, 3, 0), 3)),
        ("2015年创立", (FoundDate(2015, 0, 0), 0)),
        ("2023-13-45", (FoundDate(2023, 0, 0), 0)),
        ("12015 or 20155", None),
        ("no date", None),
    ],
)
def test_the_first_date_of_a_text_is_read_as_precisely_as_it_is_written(
    text: str, expected: tuple[FoundDate, int] | None
) -> None:
    """Years, months and days in both languages; impossible ones aren't dates."""
    assert first_date(text) == expected


def test_sentences_end_where_a_reader_sees_them_end() -> None:
    """Abbreviations, initials, decimals and Chinese stops."""
    text = "J. Smith of Acme Inc. paid 3.5 dollars. He left! 他走了。她来了？Done"
    assert split_sentences(text) == [
        "J. Smith of Acme Inc. paid 3.5 dollars.",
        "He left!",
        "他走了。",
        "她来了？",
        "Done",
    ]


@given(st.text(max_size=400))
def test_no_text_is_quoted_with_something_that_reads_as_a_citation(text: str) -> None:
    """Whatever a document holds, what is quoted of it carries no bracketed number and no think tag."""
    assert re.search(r"[\[［【]\s*\d+\s*[\]］】]|</?think", quotable(text), re.IGNORECASE) is None


ANY_TEXT = st.text(max_size=200) | st.text(
    st.sampled_from("[]1234 |›#-*.。！<>think/你好OpenAI年月日2023\n\r\u2028\x00\ud800"), max_size=200
)


@settings(max_examples=300)
@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=3), ANY_TEXT)
async def test_no_text_makes_it_fail_and_every_number_it_cites_exists(
    question: str, texts: list[str], previous: str
) -> None:
    """Any question, passages and history: one call or one answer, and only numbers of the passages in it."""
    observation = found(*(passage(n, "t", "h", text) for n, text in enumerate(texts, 1)))
    before: list[Message] = [UserMessage(previous), AssistantMessage("nothing")]
    first = await reply([*before, UserMessage(question)])
    (call,) = first.tool_calls
    assert json.loads(call.arguments)
    got = await answer(question, observation, before)
    cited = {int(n) for n in re.findall(r"\[(\d+)\]", got)}
    assert cited <= {p.n for p in passages_of(observation)}
    assert got.startswith(tuple(NOTICE.values()))
