"""The offline model: answers from the passages it was given, in their own sentences, and says that it does.

Used when no chat model is configured. It decides between a search and no_evidence_needed by word lists
(app/llm/smalltalk.py), and picks sentences by the question's words (app/llm/sentences.py). It makes no
request, keeps no state and is deterministic.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from app.llm.model import (
    AssistantMessage,
    Feature,
    Finish,
    Message,
    ModelEvent,
    ModelRequest,
    ModelTurn,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from app.llm.phrasing import NOTICE, SAY
from app.llm.sentences import Passage, best_sentences, passages_of, quotable, sentences_of, split_sentences
from app.llm.smalltalk import Talk, talk_of
from app.llm.words import Language, fold, keywords, question_language, subject
from app.text import clean, cut

NAME = "extractive-offline"
SEARCH = "search_chunks"
MANUAL = "search_docs"
TERMINAL = "no_evidence_needed"

_QUERY_CHARS = 300
_COVERED = 0.65
"""From which part of the question on, by weight of its words, an answer is given without a reservation."""
_PIECE = re.compile(r"\s*\S{1,12}|\s+")
_PRODUCT = re.compile("turnstream")
_POINTS_BACK = re.compile(
    r"\b(?:he|she|him|her|his|it|its|they|them|their)\b|[他她它]|那[次个位家时]|这[次个位家]|其中|后来|此后"
)
_TAIL_NUMBERS = re.compile(r"(?:\s*\[\d+\])+\Z")


class _Task(msgspec.Struct, frozen=True):
    """The one user message of a fresh answer request (DESIGN section 6), as far as it is read here."""

    question: str
    evidence: object = None
    sources: object = None


class _Excerpt(msgspec.Struct, frozen=True):
    """An entry of the request's `sources`, read where the evidence holds no passage."""

    n: int
    title: str = ""
    locator: str = ""
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A request taken apart: the question, what came before it, and this turn's calls and results."""

    question: str
    subject: str
    """The question, led by the content words of the question before it where it points back to that one."""
    before: tuple[Message, ...]
    calls: tuple[ToolCall, ...]
    results: tuple[str, ...]


class Extractive:
    """Implements app.llm.model.Model without any endpoint. Raises nothing; counts no tokens."""

    @property
    def name(self) -> str:
        """`extractive-offline`, as stored with each answer."""
        return NAME

    @property
    def origin(self) -> str:
        """`offline`."""
        return "offline"

    def learn(self, feature: Feature) -> None:
        """Every feature is understood or not needed, so that there is nothing to remember."""

    async def aclose(self) -> None:
        """Holds nothing to release."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """A call where no tool has run yet and tools are offered; otherwise the answer, piece by piece."""
        turn = _read(request.messages)
        call = _call(turn, request)
        if call is not None:
            await asyncio.sleep(0)
            yield ModelTurn(text="", tool_calls=(call,), finish=Finish.TOOL_CALLS)
            return
        text = clean(_answer(turn))
        for piece in _PIECE.findall(text):
            yield TextDelta(piece)
            await asyncio.sleep(0)
        yield ModelTurn(text=text, tool_calls=(), finish=Finish.STOP)


def _read(messages: Sequence[Message]) -> _Turn:
    """The last question and what belongs to it; a fresh answer request brings both in one message."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    if last < 0:
        return _Turn("", "", tuple(messages), (), ())
    question = messages[last].content or ""
    before, since = tuple(messages[:last]), messages[last + 1 :]
    alone = not since and all(isinstance(m, SystemMessage) for m in before)
    if alone and (task := _task(question)) is not None:
        return _Turn(task.question, task.question, (), (), tuple(_evidence(task)))
    calls = tuple(c for m in since if isinstance(m, AssistantMessage) for c in m.tool_calls)
    results = tuple(m.content for m in since if isinstance(m, ToolMessage))
    return _Turn(question, _subject(question, before), before, calls, results)


def _subject(question: str, before: Sequence[Message]) -> str:
    words = keywords(question)
    previous = _last(before, UserMessage)
    points_back = len(words) < 2 or (len(words) < 5 and _POINTS_BACK.search(fold(question)))
    if previous is None or not points_back or talk_of(previous) is not None:
        return question
    return " ".join([*(w for w in keywords(previous) if w not in words), question])


def _task(content: str) -> _Task | None:
    """The content as an answer request; None where it is a question like any other."""
    if not content.lstrip().startswith("{"):
        return None
    try:
        return msgspec.json.decode(clean(content).encode(), type=_Task)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _evidence(task: _Task) -> list[str]:
    """The observations of an answer request; its sources' excerpts where no observation holds a passage."""
    found = list(_strings(task.evidence))
    if any(passages_of(text) for text in found):
        return found
    try:
        sources = msgspec.convert(task.sources or [], type=list[_Excerpt])
    except msgspec.ValidationError:
        return found
    for s in sources:
        lines = [f"| {line}" for line in s.excerpt.splitlines()]
        found.append("\n".join([" ".join(f"[{s.n}] {s.title} › {s.locator}".split()), *lines]))
    return found


def _strings(value: object) -> Iterator[str]:
    """Every string inside a JSON value, in order, whatever shape the evidence has."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case list(items):  # pyright: ignore[reportUnknownVariableType]
                waiting.extend(reversed(items))  # pyright: ignore[reportUnknownArgumentType]
            case dict(fields):  # pyright: ignore[reportUnknownVariableType]
                waiting.extend(reversed(fields.values()))  # pyright: ignore[reportUnknownArgumentType]
            case _:
                pass


def _call(turn: _Turn, request: ModelRequest) -> ToolCall | None:
    """The tool to call now; None where an answer is due or nothing suitable is offered."""
    offered = {spec.name for spec in request.tools}
    if not turn.results:
        talk = talk_of(turn.question)
        if talk is not None and TERMINAL in offered:
            return _tool_call(TERMINAL, {"reason": talk.value}, request.messages)
        if SEARCH in offered:
            return _tool_call(SEARCH, {"query": _query(turn)}, request.messages)
        return None
    return _second_call(turn, offered, request.messages)


def _second_call(turn: _Turn, offered: set[str], messages: Sequence[Message]) -> ToolCall | None:
    """One more look where the first search can't have been enough.

    The manual, for a question about this product that the base had nothing on; and for a timeline whose
    lines hardly touch the subject, a search for the subject alone.
    """
    if [call.name for call in turn.calls] != [SEARCH]:
        return None
    passages = _passages(turn)
    if not passages and MANUAL in offered and _PRODUCT.search(fold(turn.question)):
        return _tool_call(MANUAL, {"query": _query(turn)}, messages)
    narrower = " ".join(subject(turn.subject))
    if SEARCH in offered and passages and narrower and narrower != _query(turn):
        best = best_sentences(turn.subject, passages, language=question_language(turn.question))
        if best.coverage < _COVERED:
            return _tool_call(SEARCH, {"query": clean(cut(narrower, _QUERY_CHARS))}, messages)
    return None


def _passages(turn: _Turn) -> list[Passage]:
    """The passages of all results, each once, in order."""
    found = [p for result in turn.results for p in passages_of(result)]
    return list({(p.n, p.lines): p for p in found}.values())


def _tool_call(name: str, arguments: dict[str, str], messages: Sequence[Message]) -> ToolCall:
    """A call whose id is the same for the same request and different within any one list of messages."""
    seen = hashlib.sha256(repr(messages).encode("utf-8", "surrogatepass")).hexdigest()
    return ToolCall(id=f"call_{seen[:20]}", name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def _query(turn: _Turn) -> str:
    """What is worth searching for: the content words, or the question as it is where it has none."""
    query = " ".join(keywords(turn.subject)) or " ".join(turn.question.split())
    return clean(cut(query, _QUERY_CHARS))


def _last(messages: Sequence[Message], kind: type[UserMessage | AssistantMessage]) -> str | None:
    """The newest text of a kind of message; messages without text are passed over."""
    return next((m.content for m in reversed(messages) if isinstance(m, kind) and m.content), None)


def _answer(turn: _Turn) -> str:
    """The whole answer: the notice, then what there is to say."""
    wordless = not any(c.isalpha() for c in turn.question)
    language = question_language((wordless and _last(turn.before, UserMessage)) or turn.question)
    talk = talk_of(turn.question)
    passages = _passages(turn)
    if passages and talk is None:
        body = _quotes(turn, passages, language)
    elif talk is not None:
        body = _small_talk(talk, turn, language)
    elif failure := next((r for r in turn.results if r.startswith("ERROR: ")), None):
        reason = cut(quotable(failure.removeprefix("ERROR: ")), _QUERY_CHARS)
        body = f"{SAY['failed'][language]} {reason}"
    else:
        body = SAY["nothing" if turn.results else "no_search"][language]
    return f"{NOTICE[language]}\n\n{body}"


def _quotes(turn: _Turn, passages: Sequence[Passage], language: Language) -> str:
    """The best sentences as a list, each with its number; the nearest passages where none fits."""
    best = best_sentences(turn.subject, passages, language=language)
    if best.sentences:
        lines = [f"- {s.text} [{s.n}]" for s in best.sentences]
        return "\n".join(lines if best.coverage >= _COVERED else [SAY["partly"][language], *lines])
    openings = {s.n: s.text for s in reversed(sentences_of(passages))}
    nearest = [f"- {openings[p.n]} [{p.n}]" for p in passages if p.n in openings]
    if not nearest:
        return SAY["nothing"][language]
    return "\n".join([SAY["no_match"][language], *dict.fromkeys(nearest[:3])])


def _small_talk(talk: Talk, turn: _Turn, language: Language) -> str:
    """What can be said without evidence, or from the conversation itself."""
    match talk:
        case Talk.SEARCHED:
            return _searched(turn.before, language)
        case Talk.SHORTER:
            return _shortened(turn.before, language)
        case Talk.STATUS:
            previous = _last(turn.before, UserMessage)
            if previous is None:
                return SAY["status_first"][language]
            return f"{SAY['status'][language]}\n- {cut(quotable(previous), _QUERY_CHARS)}"
        case _:
            return SAY[talk.name.lower()][language]


def _searched(before: Sequence[Message], language: Language) -> str:
    """Which tools the previous turn called, read from its exchange in the history."""
    asked = max((i for i, m in enumerate(before) if isinstance(m, UserMessage)), default=len(before))
    calls = [c for m in before[asked:] if isinstance(m, AssistantMessage) for c in m.tool_calls]
    searches = [c for c in calls if c.name != TERMINAL]
    if not searches:
        return SAY["not_searched"][language]
    lines = [f"- {c.name} {cut(quotable(c.arguments), _QUERY_CHARS)}" for c in searches]
    return "\n".join([SAY["searched"][language], *lines])


def _shortened(before: Sequence[Message], language: Language) -> str:
    """The first two sentences of the previous answer, with the numbers they carry."""
    previous = _last(before, AssistantMessage)
    if previous is None:
        return SAY["nothing_before"][language]
    kept: list[str] = []
    for line in previous.splitlines():
        bare = line.strip()
        if not bare or bare in NOTICE.values():
            continue
        numbers = _TAIL_NUMBERS.search(bare)
        text = bare[: numbers.start()] if numbers else bare
        pieces = split_sentences(text) or [text]
        kept.extend(piece + (numbers.group() if numbers else "") for piece in pieces)
        if len(kept) >= 2:
            break
    return "\n".join(kept[:2]) or SAY["nothing_before"][language]
