"""Words for the offline model: the language of a text, what a question asks for, which terms it searches.

Decides terms (CJK bigrams and characters, stems of other words), stop words and the question's intent.
All lists are small and in the open; they belong to the offline model alone, no policy reads them.
"""

import re
import unicodedata
from enum import Flag, auto
from functools import lru_cache
from typing import Literal, Protocol, cast

import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]

Language = Literal["zh", "en"]

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CJK = _HAN + "\u3040-\u30ff\uac00-\ud7af"
_HAN_CHAR = re.compile(f"[{_HAN}]")
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_TOKEN = re.compile(f"(?P<cjk>[{_CJK}]+)|(?P<word>(?:(?![{_CJK}])[^\\W_])+)")
_POSSESSIVE = re.compile(r"['’]s\b")


def _listed(words: str) -> list[str]:
    """The words of a list, the longest first, as an alternation of a pattern wants them."""
    return sorted(words.split(), key=len, reverse=True)


_FUNCTION_WORDS = frozenset(
    _listed("""
    hello hi hey thanks thank happen happened happens a about all also am an and any are as at be been
    but by can could did do does for from had has have he her his how i if in into is it its know let
    list many me more much my no not of on or our please say she should show so some tell than that
    the their them then there these they this those to up was we were what when where which who whom
    whose why will with would you your
""")
)

_CJK_STOPS = _listed("""
    是什么时候 发生了什么 什么时候 后来 他们 你好 您好 谢谢 为什么 有哪些 有哪几 哪一年 哪几位 哪些人
    什么人 是怎么 怎么样 告诉我 介绍一下 说一下 说说 讲讲 列出 给我 请问 什么 哪些 哪个 哪年 哪天 哪里
    何时 何人 多少 几个 几月 如何 怎么 怎样 多久 现在 关于 以及 之间 一下 是否 有谁 是谁 他 她 它 给 的
    了 吗 呢 吧 啊 呀 谁 请 我 你 您 和 与 跟 及 在 是 有 被 时 都 也 就 这 那 把 对 里 还 哪 几 は が
    を の に と で も か
""")
_CJK_KEPT = _listed("""
    时间线 时间 时代 同时 当时 及时 小时 有限 有效 有关 没有 所有 拥有 持有 私有 特有 和解 和平 共和
    目的 了解 请求 申请 聘请 存在 所在 参与 与会 以及 就任 就职 成就 首都 都市 这样 对手 对话 对齐 反对
    针对 面对 那么 几何 我国 里程碑 里面 公里 还原 归还 把握 是非 但是 即时 实时 临时 涉及 普及 被动
    给予 供给 补给 其他 他人 吉他
""")
_CJK_PIECES = re.compile(f"(?P<kept>{'|'.join(_CJK_KEPT)})|(?P<stop>{'|'.join(_CJK_STOPS)})")

_TIMELINE_ZH = re.compile("时间线|时间轴|大事记|编年|年表|历程|里程碑|发展史|来龙去脉|经过")
_TIMELINE_EN = re.compile(r"\b(?:time ?lines?|chronolog\w+|milestones?|key dates|history of|course of events)\b")
_WHEN_ZH = re.compile("什么时候|何时|哪一?年|哪一?天|哪个?月|几月|几号|日期|多久")
_WHEN_EN = re.compile(r"\b(?:when|what (?:date|day|year|month)|which (?:date|day|year|month)|how long|dates?)\b")
_WHO_ZH = re.compile("谁|哪些人|哪几[位个人]|哪[位个]人|何人|什么人|成员|名单|人员")
_WHO_EN = re.compile(r"\b(?:who|whom|whose|members?|founders?|people)\b")
_TIMELINE_WORDS = frozenset(
    _listed("""
    时间线 时间轴 大事记 编年 年表 历程 发展历程 里程碑 发展史 来龙去脉 经过 timeline timelines
    chronology chronological milestone milestones history dates events
""")
)


class Intent(Flag):
    """What kind of answer a question asks for; several may hold at once."""

    PLAIN = 0
    WHEN = auto()
    WHO = auto()
    TIMELINE = auto()


def fold(text: str) -> str:
    """NFKC and case folded: the form in which words are compared."""
    return unicodedata.normalize("NFKC", text).casefold()


def question_language(text: str) -> Language:
    """The language to frame an answer in: Chinese where the question is, English otherwise.

    A mixed question ("OpenAI 的时间线") is Chinese unless English function words outweigh its Han characters.
    """
    if _KANA_OR_HANGUL.search(text):
        return "en"
    han = len(_HAN_CHAR.findall(text))
    if not han:
        return "en"
    english = sum(1 for word in re.findall(r"[a-z]+", text.casefold()) if word in _FUNCTION_WORDS)
    return "en" if english * 2 > han else "zh"


def text_language(text: str) -> Language:
    """The language of a passage's sentence: Chinese where at least a seventh of its characters are Han."""
    han = len(_HAN_CHAR.findall(text))
    return "zh" if han * 7 >= len(text) and han else "en"


def intent(question: str) -> Intent:
    """What the question asks for, by its question words."""
    folded = fold(question)
    found = Intent.PLAIN
    if _TIMELINE_ZH.search(folded) or _TIMELINE_EN.search(folded):
        found |= Intent.TIMELINE
    if _WHEN_ZH.search(folded) or _WHEN_EN.search(folded):
        found |= Intent.WHEN
    if _WHO_ZH.search(folded) or _WHO_EN.search(folded):
        found |= Intent.WHO
    return found


def keywords(question: str) -> tuple[str, ...]:
    """The question without its function words, in order and as written: what is worth searching for."""
    text = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", question))
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "word":
            word = match.group()
            if word.casefold() not in _FUNCTION_WORDS and (len(word) > 1 or word.isdigit()):
                found.append(word)
        else:
            found.extend(_content_runs(match.group()))
    return tuple(found)


def _content_runs(run: str) -> list[str]:
    """A CJK run cut at its stop words; words that merely contain one stay whole."""
    cut = _CJK_PIECES.sub(lambda m: m.group() if m.lastgroup == "kept" else " ", run)
    return cut.split()


def question_terms(question: str) -> frozenset[str]:
    """The terms a sentence is matched against: bigrams of CJK runs, stems of other words."""
    found: set[str] = set()
    for word in keywords(question):
        if _TOKEN.fullmatch(word) and re.match(f"[{_CJK}]", word):
            folded = fold(word)
            found.update(_bigrams(folded) if len(folded) > 1 else [folded])
        else:
            found.add(stem(fold(word)))
    return frozenset(found)


def subject(question: str) -> tuple[str, ...]:
    """The question's content words without those that only say that a timeline is wanted."""
    return tuple(w for w in keywords(question) if fold(w) not in _TIMELINE_WORDS)


def terms(text: str) -> frozenset[str]:
    """Every term of a passage's text: CJK bigrams and single characters, stems of other words."""
    found: set[str] = set()
    for match in _TOKEN.finditer(_POSSESSIVE.sub("", fold(text))):
        token = match.group()
        if match.lastgroup == "word":
            found.add(stem(token))
        else:
            found.update(_bigrams(token))
            found.update(token)
    return frozenset(found)


def content_terms(text: str) -> frozenset[str]:
    """The terms of a text without function words."""
    return terms(text) - _FUNCTION_STEMS


def _bigrams(run: str) -> list[str]:
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    return [_SAME.get(pair, pair) for pair in pairs]


class _Stemmer(Protocol):
    """What is used of snowballstemmer, which ships no types."""

    def stemWord(self, word: str) -> str: ...  # noqa: N802


_SAME = {
    other: group.split()[0]
    for group in (
        "found establish creat start 成立 创立 创办 创建 创始",
        "remov fire oust dismiss sack 罢免 解雇 开除 解职 免职",
        "leav left quit resign depart departur 离开 离职 退出 卸任 辞职",
        "return came come back reinstat 回归 复职 回任 回到",
        "releas launch 发布 推出 上线 公布",
        "acquir bought buy purchas acquisit 收购 买下",
        "lead led head",
        "invest invested 投资",
        "execut ceo 席执",
        "compani firm 公司",
        "board 董事",
        "relat relationship connect 关系",
    )
    for other in group.split()[1:]
}
"""Terms that count as one: stems and bigrams of common events, across both languages."""

_STEMMER = cast("_Stemmer", snowballstemmer.stemmer("english"))  # pyright: ignore[reportUnknownMemberType]


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The word's stem, one step further than Snowball: founder meets founded, and left meets resigned."""
    if not word.isascii() or len(word) > 40:
        return word
    short = _STEMMER.stemWord(word)
    short = short[:-2] if len(short) > 5 and short.endswith(("er", "or")) else short
    return _SAME.get(short, short)


_FUNCTION_STEMS = frozenset(stem(word) for word in _FUNCTION_WORDS)
