"""What the offline model says in its own words, in Chinese and English. Everything else it says is quoted."""

from app.llm.words import Language

NOTICE: dict[Language, str] = {
    "en": (
        "Offline extractive answer (no chat model is configured; set TURNSTREAM_LLM_BASE_URL and TURNSTREAM_LLM_MODEL):"
    ),
    "zh": "离线摘录回答（尚未配置对话模型；请设置 TURNSTREAM_LLM_BASE_URL 和 TURNSTREAM_LLM_MODEL）：",
}
"""The first line of every answer, in the question's language."""

SAY: dict[str, dict[Language, str]] = {
    "nothing": {
        "en": "Nothing about this was found in this base.",
        "zh": "在这个知识库里没有找到与此有关的内容。",
    },
    "failed": {
        "en": "The search could not be done, so nothing can be said about what the base holds:",
        "zh": "检索没有成功，因此无法判断知识库里有没有相关内容：",
    },
    "partly": {
        "en": "No sentence found covers the whole question. The closest ones are:",
        "zh": "没有找到能覆盖整个问题的句子。最接近的是：",
    },
    "no_match": {
        "en": "No sentence in the passages found uses the words of the question. The closest passages are:",
        "zh": "找到的段落里没有与问题用词相符的句子。最接近的段落是：",
    },
    "no_search": {
        "en": "No search was run for this answer, so it rests on nothing.",
        "zh": "这次回答没有进行检索，因此没有依据。",
    },
    "greeting": {
        "en": "Hello. Ask about anything in this base; I quote the sentences that fit best, with their sources.",
        "zh": "你好。请就这个知识库里的内容提问，我会摘录最相关的句子并注明出处。",
    },
    "thanks": {"en": "You're welcome. Ask on whenever you like.", "zh": "不客气。随时可以继续提问。"},
    "identity": {
        "en": (
            "I am turnstream's offline model. I search this base and quote the sentences that fit a question "
            "best. I write nothing of my own: I can't reason, translate, reword or continue a text."
        ),
        "zh": (
            "我是 turnstream 的离线模型。我检索这个知识库，并摘录与问题最相关的句子。"
            "我不会自己写内容：不能推理、翻译、改写或续写。"
        ),
    },
    "searched": {
        "en": "Yes. In the previous turn these calls were made:",
        "zh": "搜了。上一轮进行了这些调用：",
    },
    "not_searched": {
        "en": "No. No search was run in the previous turn.",
        "zh": "没有。上一轮没有进行检索。",
    },
    "nothing_before": {
        "en": "There is no earlier answer in this conversation.",
        "zh": "这个对话里还没有之前的回答。",
    },
    "reword": {
        "en": (
            "The offline model only quotes: it can't reword, translate, explain or continue an answer. "
            "It can shorten one, or answer a new question."
        ),
        "zh": "离线模型只能摘录：不能改写、翻译、解释或续写。可以让它缩短上一个回答，或者提一个新问题。",
    },
    "status": {
        "en": "Nothing is running but this answer. The previous question was:",
        "zh": "除了这个回答，没有别的任务在运行。上一个问题是：",
    },
    "status_first": {
        "en": "Nothing is running but this answer. No question was asked in this conversation yet.",
        "zh": "除了这个回答，没有别的任务在运行。这个对话里还没有提过问题。",
    },
    "wordless": {
        "en": "The message has no words to search for. Ask about anything in this base.",
        "zh": "这条消息里没有可以检索的词。请就这个知识库里的内容提问。",
    },
}
