"""Messages that are about the conversation and name nothing to search for, as the offline model tells them.

A message counts only when lists of whole phrases and fillers cover every word of it, so anything that
names a thing ("你好，OpenAI 的时间线", "Thanks! Who founded Mistral?") is searched.
"""

import re
from enum import StrEnum

from app.llm.words import fold


class Talk(StrEnum):
    """What a message without a subject wants. The value is the reason given to no_evidence_needed."""

    GREETING = "a greeting"
    THANKS = "thanks or assent"
    IDENTITY = "a question about the assistant itself"
    SEARCHED = "a question about whether the base was searched"
    SHORTER = "a request to shorten the previous answer"
    REWORD = "a request to reword or continue the previous answer"
    STATUS = "a question about the state of the conversation"
    WORDLESS = "a message without words to search for"


_PHRASES: dict[Talk, str] = {
    Talk.GREETING: """
        你好|您好|你们好|大家好|嗨|哈喽|哈啰|喂|早|早安|早上好|上午好|中午好|下午好|晚上好|晚安|在吗
        在不在|好久不见|再见|拜拜|hello|hi|hey|hiya|howdy|greetings|good morning|good afternoon
        good evening|good night|good day|bye|goodbye|see you|how are you|how are you doing
        nice to meet you|are you there|test|testing|bonjour|salut|hola|buenos días|buenas tardes|hallo
        guten tag|guten morgen|ciao|olá|привет|здравствуйте|こんにちは|おはよう|こんばんは|안녕하세요
        안녕|merhaba|namaste|xin chào
    """,
    Talk.THANKS: """
        谢谢|谢谢你|谢谢您|多谢|感谢|谢了|辛苦了|好的|好|好吧|行|可以|嗯|嗯嗯|明白|明白了|知道了|懂了
        收到|不错|很好|太好了|没事|没问题|对|是的|thanks|thank you|thanks a lot|many thanks|thx|ty
        cheers|ok|okay|k|got it|i see|great|nice|cool|perfect|good|well done|understood|alright
        all right|sure|yes|no|yep|never mind|no problem|that helps|sounds good|merci|gracias|danke
        grazie|obrigado|obrigada|спасибо|ありがとう|ありがとうございます|감사합니다
    """,
    Talk.IDENTITY: """
        你是谁|您是谁|你是什么|你是什么模型|你是哪个模型|你叫什么|你叫什么名字|你是机器人吗|你是人吗
        你是真人吗|你会什么|你能做什么|你能干什么|你能干嘛|你可以做什么|你会做什么|你有什么功能|自我介绍
        自我介绍一下|介绍一下你自己|介绍你自己|你用的什么模型|你用什么模型|怎么用你|你怎么用|谁做的你
        谁开发的你|帮助|who are you|what are you|what is your name|what's your name|whats your name
        what can you do|what do you do|how can you help|how can you help me|can you help me
        introduce yourself|tell me about yourself|which model are you|what model are you|are you a bot
        are you a robot|are you human|are you an ai|help|who made you|who built you|how do you work
    """,
    Talk.SEARCHED: """
        你搜了吗|你搜索了吗|搜了吗|搜索了吗|你查了吗|查了吗|你查过吗|你找了吗|你搜过吗|你真的搜了吗
        你真的查了吗|你搜没搜|你查没查|你用工具了吗|用工具了吗|你搜了没有|你查了没有|搜了没|查了没
        你看资料了吗|你查资料了吗|哪来的|从哪来的|出处|出处呢|来源|来源呢|依据呢|有依据吗|有来源吗
        真的吗|确定吗|你确定吗|did you search|did you search for it|did you really search|did you look
        did you look it up|did you look that up|have you searched|did you check|did you use a tool
        did you use the tools|did you use any tools|really|are you sure|where is that from
        where did you get that|what is your source|what are your sources|source|sources
    """,
    Talk.SHORTER: """
        说短一点|说短点|短一点|短点|再短一点|再短点|简短一点|简短点|简短些|简短|简单点|简单一点|简单说
        简洁一点|简洁点|精简一下|精简一点|精简|缩短一点|缩短|长话短说|一句话|一句话总结|一句话概括
        用一句话说|总结一下|概括一下|总结|概括|太长|太长了|太长不看|少说点|说重点|只说重点|shorter
        shorter please|make it shorter|make that shorter|shorten|shorten it|shorten that|be brief
        briefly|brief|be concise|more concise|in short|keep it short|say it shorter|summarize|summarise
        summarize it|summarize that|sum it up|sum up|tldr|tl dr|too long|in one sentence|cut it down
        can you shorten it|can you make it shorter|could you make it shorter|can you be brief
        can you summarize|can you summarize that
    """,
    Talk.REWORD: """
        说长一点|长一点|详细一点|详细点|详细说说|说详细一点|说详细点|展开|展开说说|展开讲讲|多说一点
        继续|接着说|然后呢|还有吗|还有呢|再说一遍|再说一次|重复一遍|重说|换个说法|换种说法|翻译一下|翻译
        翻译成英文|翻译成中文|用英文|用英文说|用中文说|用中文|说中文|说英文|改写一下|润色一下|通俗一点
        没看懂|没听懂|听不懂|看不懂|什么意思|为什么|为啥|解释一下|举个例子|longer|more|more detail
        more details|in more detail|elaborate|continue|go on|keep going|and then|what else|again
        say it again|say that again|repeat|repeat that|repeat it|rephrase|rephrase it|rephrase that
        reword it|reword that|reword|translate|translate it|translate that|translate it to english
        translate it into english|translate that to english|translate that into english
        translate it to chinese|translate that into chinese|in english|in chinese|say it in english
        say it in chinese|simpler|explain|explain that|explain it|why|what do you mean
        what does that mean|i do not understand|i don't understand|tell me more|give an example
        make it simpler|say it differently
    """,
    Talk.STATUS: """
        啥情况|什么情况|啥意思|怎么回事|怎么了|咋了|咋回事|咋样|怎么样|怎么样了|出什么事了|发生了什么
        好了吗|完了吗|好了没|在干嘛|你在干嘛|你在做什么|你刚才说什么|你刚说什么|我刚才问了什么
        我问了什么|我刚问了什么|说话|人呢|what's up|whats up|what is up|what's going on|what is going on
        what happened|what's happening|what now|are you done|done|what did you say|what did i ask
        what did i just ask|what's the matter|huh|what|so|and|hm|hmm
    """,
}
_FILLERS = """
    请|麻烦|帮我|能|能不能|能否|可以|可否|吧|吗|呢|啊|呀|哦|噢|哈|了|嘛|再|还|那|就|请问|你|一下|一些|点
    哈哈|呵呵|额|呃|给我|这个|这|上面|上面的|刚才|刚才的|回答|答案|把|它|的|我|朋友|助手|please|pls|just
    oh|ah|well|then|now|so|and|but|a|bit|little|very|much|again|there|everyone|all|assistant|bot|friend
    can you|could you|would you|the answer|your answer|that|it|this|your|last|previous|answer|haha|lol
"""
_RANK = (
    Talk.SHORTER,
    Talk.REWORD,
    Talk.SEARCHED,
    Talk.IDENTITY,
    Talk.STATUS,
    Talk.THANKS,
    Talk.GREETING,
)
"""Which kind a message of several is: what asks for something goes before what is only polite."""

_CJK_CHAR = "\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af"
_TOKEN = re.compile(f"[{_CJK_CHAR}]|(?:(?![{_CJK_CHAR}])[^\\W_])+(?:['’](?:(?![{_CJK_CHAR}])[^\\W_])+)*")
Tokens = tuple[str, ...]


def talk_of(message: str) -> Talk | None:
    """The kind of a message that names nothing to search for; None for every other message."""
    tokens = _tokens(message)
    if not tokens:
        return Talk.WORDLESS
    if len(tokens) > _LONGEST_MESSAGE:
        return None
    kinds = _cover(tokens)
    if kinds is None:
        return None
    return next((kind for kind in _RANK if kind in kinds), None)


def _cover(tokens: Tokens) -> frozenset[Talk] | None:
    """The kinds of phrases that together with fillers cover the tokens from end to end; None if none do.

    Fewest pieces win, so that "好" inside "你好" doesn't count as assent.
    """
    best: list[tuple[int, frozenset[Talk]] | None] = [(0, frozenset[Talk]())] + [None] * len(tokens)
    for start in range(len(tokens)):
        here = best[start]
        if here is None:
            continue
        for length in range(1, min(_LONGEST_PHRASE, len(tokens) - start) + 1):
            piece = tokens[start : start + length]
            if piece not in _KINDS:
                continue
            kind = _KINDS[piece]
            there = best[start + length]
            if there is None or here[0] + 1 < there[0]:
                best[start + length] = (here[0] + 1, here[1] | {kind} if kind else here[1])
    last = best[-1]
    return last[1] if last else None


def _tokens(text: str) -> Tokens:
    return tuple(_TOKEN.findall(fold(text).replace("’", "'")))


def _entries(listed: str) -> list[Tokens]:
    """The phrases of a list: apart by bars and line ends."""
    return [_tokens(phrase) for line in listed.split("\n") for phrase in line.split("|") if phrase.strip()]


_KINDS: dict[Tokens, Talk | None] = dict.fromkeys(_entries(_FILLERS))
for _kind in reversed(_RANK):
    _KINDS.update(dict.fromkeys(_entries(_PHRASES[_kind]), _kind))
_LONGEST_PHRASE = max(map(len, _KINDS))
_LONGEST_MESSAGE = 40
