"""What a refusal stands for. Family "refusals" of issue 3, cases P08, P16, P17, A14, A15, A16."""

import json
from email.utils import formatdate

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.llm.capabilities import Capabilities
from app.llm.failures import (
    Asked,
    ContentFiltered,
    ContextTooLong,
    ModelFailure,
    OutOfCredit,
    RateLimited,
    Rejected,
    Unavailable,
    classify,
)
from app.llm.model import Feature
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from app.llm.provider_error import Redactor, retry_after
from tests.harness.scripted_endpoint import ScriptedEndpoint, http
from tests.unit.llm.reading import ask

KEY = "a1b2c3d4-secret-key-of-ours"


def refusal(status: int | None, body: object, *, host: str = "here", **headers: str) -> ModelFailure:
    """How a refusal with this body is read; underscores in header names become hyphens."""
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    named = httpx.Headers({name.replace("_", "-"): value for name, value in headers.items()})
    return classify(status, named, raw, asked=Asked(host=host, redact=Redactor([KEY])))


def said(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


CONTEXT = [
    (400, said("This model's maximum context length is 8192 tokens.", code="context_length_exceeded"), "openai"),
    (400, said("Please reduce the length of the messages or completion.", code="context_length_exceeded"), "groq"),
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 8 tokens. However, you requested 9 tokens",
        },
        "vllm",
    ),
    (
        400,
        {"message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192."},
        "vllm-decoder",
    ),
    (
        400,
        "request (105140 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "llama.cpp-text",
    ),
    (500, said("the request exceeds the available context size", type="exceed_context_size_error"), "llama.cpp-500"),
    (400, said("prompt is too long: 210000 tokens > 200000 maximum"), "anthropic"),
    (400, [said("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")], "gemini"),
    (400, said("Range of input length should be [1, 129024]"), "dashscope"),
    (
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
        "mistral",
    ),
    (400, said("This endpoint's maximum context length is 131072 tokens."), "openrouter"),
    (
        400,
        said("Provider returned error", metadata={"raw": '{"error":{"message":"prompt is too long"}}'}),
        "openrouter-raw",
    ),
    (400, said("This model's maximum prompt length is 131072 but the request contains 537812 tokens."), "xai"),
    (400, {"error": "the model is loaded with context length of only 4096 tokens"}, "lm-studio"),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097"}, "tgi"),
    (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}, "cohere"),
    (400, said("Your request exceeded model token limit: 8192"), "moonshot"),
    (400, said("the input length exceeds the context length"), "ollama"),
    (400, {"code": 20015, "message": "length of prompt_tokens (9) must be less than max_seq_len (8)."}, "siliconflow"),
    (400, said("The input (9 tokens) is longer than the model's context length (8 tokens)."), "sglang"),
    (400, said("Prompt 超长", code="1261"), "zhipu"),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", "bare-413"),
    (
        413,
        said("Request too large for model on tokens per minute (TPM): Limit 6000", code="rate_limit_exceeded"),
        "groq-413",
    ),
    (
        429,
        said("Request too large for gpt-4o on tokens per min (TPM): Limit 30000", code="rate_limit_exceeded"),
        "openai-429",
    ),
]


@pytest.mark.parametrize(("status", "body"), [c[:2] for c in CONTEXT], ids=[c[2] for c in CONTEXT])
def test_a_request_larger_than_the_window_is_known_in_every_wording(status: int, body: object) -> None:
    """By code or by words, in JSON, in text, in a quoted upstream body (A16)."""
    failure = refusal(status, body)
    assert type(failure) is ContextTooLong
    assert (failure.status, failure.transient) == (status, False)


MONEY: list[tuple[str, int, object, str, dict[str, str], type[ModelFailure]]] = [
    ("P17A", 429, said("You exceeded your current quota", code="insufficient_quota"), "here", {}, OutOfCredit),
    ("P17B", 429, said("Requests rate limit exceeded", code="insufficient_quota", type="Throttling.RateQuota"), "here", {}, RateLimited),
    ("P17B-words", 429, said("Quota of 60 requests per minute is used up", code="insufficient_quota"), "here", {}, RateLimited),
    ("P17B-host", 429, said("You exceeded your current quota", code="insufficient_quota"), "dashscope.aliyuncs.com", {}, RateLimited),
    ("P17B-link", 429, said("see https://help.aliyun.com/error-code", code="insufficient_quota"), "here", {}, RateLimited),
    ("P17B-reset", 429, said("quota", code="insufficient_quota"), "here", {"retry_after": "9"}, RateLimited),
    ("P17A-reset", 429, said("quota", code="insufficient_quota"), "api.openai.com", {"retry_after": "9"}, OutOfCredit),
    ("P17C", 402, {"code": 30001, "message": "balance too low"}, "here", {}, OutOfCredit),
    ("P17D", 429, "", "here", {}, RateLimited),
    ("P17D-words", 429, said("slow down"), "here", {}, RateLimited),
    ("P17E-credit", 429, {"message": "Insufficient balance, please top up"}, "here", {}, OutOfCredit),
    ("P17E-rate", 429, {"message": "Rate limit reached for requests"}, "here", {}, RateLimited),
    ("402", 402, said("This request requires more credits, or fewer max_tokens"), "here", {}, OutOfCredit),
    ("402-empty", 402, "", "here", {}, OutOfCredit),
    ("403-balance", 403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}, "here", {}, OutOfCredit),
    ("401-words", 401, said("no credits left: insufficient credits"), "here", {}, OutOfCredit),
    ("429-zhipu", 429, said("余额不足或无可用资源包,请充值。", code="1113"), "here", {}, OutOfCredit),
    ("400-arrears", 400, {"code": "Arrearage", "message": "Access denied, account is not in good standing"}, "here", {}, OutOfCredit),
    ("429-moonshot", 429, said("suspended", type="exceeded_current_quota_error"), "here", {}, OutOfCredit),
    ("429-gemini", 429, [said("You exceeded your current quota", code=429, status="RESOURCE_EXHAUSTED")], "here", {}, RateLimited),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "host", "headers", "kind"), [m[1:] for m in MONEY], ids=[m[0] for m in MONEY]
)
def test_an_empty_account_is_told_from_a_throttle(
    status: int, body: object, host: str, headers: dict[str, str], kind: type[ModelFailure]
) -> None:
    """Code and provider first, then reset hints, then words, then the status (P17)."""
    failure = refusal(status, body, host=host, **headers)
    assert type(failure) is kind
    assert failure.transient is (kind is RateLimited)


WAITS: list[tuple[dict[str, str], object, float | None]] = [
    ({"retry_after": "7"}, "", 7.0),
    ({"retry_after": "1.5"}, "", 1.5),
    ({"retry_after_ms": "250"}, "", 0.25),
    ({"retry_after": "soon"}, "", None),
    ({"retry_after": "nan"}, "", None),
    ({"retry_after": "-3"}, "", 0.0),
    ({}, "", None),
    ({}, said("Please try again in 1m2.5s."), 62.5),
    ({}, said("Please try again in 20 seconds"), 20.0),
    ({}, said("try again in 320ms"), 0.32),
    ({}, [said("quota", details=[{"@type": "RetryInfo", "retryDelay": "34s"}])], 34.0),
    ({"retry_after": "7"}, said("try again in 20s"), 7.0),
]


@pytest.mark.parametrize(("headers", "body", "expected"), WAITS)
def test_the_wait_a_provider_asks_for_is_understood(
    headers: dict[str, str], body: object, expected: float | None
) -> None:
    """In seconds, in milliseconds, in words; absent where it isn't said."""
    failure = refusal(429, body, **headers)
    assert type(failure) is RateLimited
    assert failure.retry_after_s == expected


def test_a_wait_given_as_a_date_counts_from_now() -> None:
    """Retry-After may be an HTTP date; one in the past is no wait. Source: RFC 9110 10.2.3."""
    now = 1_800_000_000.0
    headers = {"retry-after": formatdate(now + 30, usegmt=True)}
    assert retry_after(headers, now) == 30.0
    assert retry_after(headers, now + 40) == 0.0


STATUSES = [
    (400, Rejected, False), (401, Rejected, False), (403, Rejected, False), (404, Rejected, False), (405, Rejected, False),
    (408, Unavailable, True), (409, Rejected, False), (422, Rejected, False), (425, Unavailable, True), (429, RateLimited, True),
    (500, Unavailable, False), (501, Unavailable, False), (502, Unavailable, True), (503, Unavailable, True),
    (504, Unavailable, True), (520, Unavailable, True), (529, Unavailable, True), (307, Rejected, False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "transient"), STATUSES)
@pytest.mark.parametrize("body", ["", "{}", "null", "[]", "{ not json", "<html><title>Oops</title></html>", said("no")])
def test_every_status_has_its_failure_whatever_its_body(
    status: int, kind: type[ModelFailure], transient: bool, body: object
) -> None:
    """JSON, not JSON, nothing at all: there is always a type and a message."""
    failure = refusal(status, body)
    assert (type(failure), failure.status, failure.transient) == (kind, status, transient)
    assert failure.message


T = Feature
NAMED = [
    ("P16A", 400, said("this tool_choice cannot be used while thinking"), {T.TOOL_CHOICE}),
    ("P16B", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}, {T.STREAM_OPTIONS}),
    ("P16B-tools", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"]}]}, {T.TOOLS}),
    ("P16C", 400, said("tools is not supported by this model"), {T.TOOLS}),
    ("P16C-ollama", 400, said('"registry.ollama.ai/library/gemma:2b" does not support tools'), {T.TOOLS}),
    ("P16C-llama.cpp", 500, said("tools param requires --jinja flag"), {T.TOOLS}),
    ("P16C-vllm", 400, {"message": '"auto" tool choice requires --enable-auto-tool-choice'}, {T.TOOLS}),
    ("P16C-openrouter", 404, said("No endpoints found that support tool use."), {T.TOOLS}),
    ("P16C-deepseek", 400, said("deepseek-reasoner does not support Function Calling"), {T.TOOLS}),
    ("P16A-openrouter", 404, said("No endpoints found that support the provided 'tool_choice' value."), {T.TOOL_CHOICE}),
    ("P16A-param", 400, said("Invalid value: 'required'", param="tool_choice"), {T.TOOL_CHOICE}),
    ("parallel", 400, said("Unrecognized request argument supplied: parallel_tool_calls"), {T.PARALLEL_TOOL_CALLS}),
    ("two-at-once", 422, said("Extra inputs: tool_choice, stream_options"), {T.TOOL_CHOICE, T.STREAM_OPTIONS}),
    ("A14", 400, {"message": "Tool call id was call_00 but must be a-z, A-Z, 0-9, with a length of 9."}, {T.CALL_IDS}),
    ("A14-openai", 400, said("Invalid 'messages[1].tool_calls[0].id': string too long. Expected a maximum length 40"), {T.CALL_IDS}),
    ("A15", 500, said("Jinja Exception: System message must be at the beginning."), {T.LATE_SYSTEM}),
    ("A15-roles", 400, {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}, {T.LATE_SYSTEM}),
    ("reasoning", 400, said("'messages.2' : property 'reasoning' is unsupported"), {T.REASONING}),
    ("reasoning-wanted-A11", 400, said("Missing reasoning_content in the assistant message"), set[Feature]()),
    ("unnamed", 400, said("field not supported"), set[Feature]()),
    ("unnamed-422", 422, said("Unprocessable"), set[Feature]()),
    ("echoed-input", 422, {"detail": [{"type": "missing", "loc": ["body", "x"], "input": {"tool_choice": 1}}]}, set[Feature]()),
    ("P16E", 401, said("bad key; tools not supported"), set[Feature]()),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "refused"), [n[1:] for n in NAMED], ids=[n[0] for n in NAMED])
def test_a_refusal_names_just_what_it_refuses(status: int, body: object, refused: set[Feature]) -> None:
    """A smaller thing than tools is never read as tools; nothing named is nothing refused (P16, A14, A15)."""
    failure = refusal(status, body)
    assert type(failure) is Rejected
    assert failure.refused == refused
    assert not failure.transient


def test_only_what_was_sent_can_have_been_refused() -> None:
    """A refusal that still names a field which was already left out is about something else (P16)."""
    body = json.dumps(said("tool_choice and stream_options are not permitted")).encode()
    failure = classify(400, {}, body, asked=Asked(sent=frozenset({Feature.STREAM_OPTIONS})))
    assert isinstance(failure, Rejected)
    assert failure.refused == {Feature.STREAM_OPTIONS}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, said("The response was filtered", code="content_filter")),
        (400, said("filtered", innererror={"code": "ResponsibleAIPolicyViolation"})),
        (400, said("triggering our content management policy")),
        (400, {"code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."}),
        (400, said("Content Exists Risk")),
    ],
)
def test_a_filtered_question_is_a_failure_of_its_own(status: int, body: object) -> None:
    """Neither a field to drop nor a thing to retry (P08C)."""
    failure = refusal(status, body)
    assert type(failure) is ContentFiltered
    assert failure.refused == frozenset()
    assert not failure.transient


WORDS = [
    (said("model is busy"), "model is busy"),
    ({"message": "top level"}, "top level"),
    ({"error": "just text"}, "just text"),
    ({"detail": "from a framework"}, "from a framework"),
    ({"detail": [{"loc": ["body", "x"], "msg": "Extra inputs"}]}, "body.x: Extra inputs"),
    ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
    ([said("in a list")], "in a list"),
    (
        said("Provider returned error", metadata={"raw": '{"message":"upstream words"}'}),
        "Provider returned error: upstream words",
    ),
    (said('{"message":"quoted within"}'), "quoted within"),
    ("plain text", "plain text"),
    ("<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
    (said("two\nlines\x00"), "two lines"),
    ("", "The endpoint answered 400 without a reason."),
    (said(""), "The endpoint answered 400 without a reason."),
]


@pytest.mark.parametrize(("body", "words"), WORDS)
def test_the_providers_words_are_kept(body: object, words: str) -> None:
    """Wherever they stand in the body; one line, clean, and our own words where there are none."""
    assert refusal(400, body).message == words


def test_long_words_are_cut_and_the_body_is_kept_for_the_log() -> None:
    """500 characters for a reader, 4,000 for the log."""
    failure = refusal(400, "long " * 2_000)
    assert len(failure.message) <= 500
    assert 3_000 < len(failure.body) <= 4_000


SECRETS = [
    KEY,
    "sk-proj-abcdefgh1234567890",
    "Bearer abcdefghijklmnop",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "api_key=abcdef123",
    '"api-key": "0123abcd"',
    "https://user:pa55word@proxy.local/v1",
    "AIzaSyA1234567890abcdefghijk",
    "gsk_abc123def456",
    "0123456789abcdef0123456789abcdef",
]
LEAKS = [
    KEY,
    "abcdefgh1234567890",
    "abcdefghijklmnop",
    "eyJzdWIi",
    "abcdef123",
    "0123abcd",
    "pa55word",
    "SyA1234567890",
    "abc123def456",
    "0123456789abcdef",
]


@pytest.mark.parametrize(("secret", "leak"), list(zip(SECRETS, LEAKS, strict=True)))
@pytest.mark.parametrize("wrap", ["Incorrect credentials: {}.", "{}", "a {} b"])
def test_secrets_are_removed_from_message_and_body(secret: str, leak: str, wrap: str) -> None:
    """The key that was sent, and whatever looks like one."""
    for body in (wrap.format(secret), said(wrap.format(secret))):
        failure = refusal(401, body)
        assert leak not in failure.message
        assert leak not in failure.body
        assert "***" in failure.message
        assert leak not in str(failure)


def test_a_masked_key_is_removed_too_and_other_words_stay() -> None:
    """Providers echo a part of the key; ids and model names are no secrets."""
    failure = refusal(
        401,
        said(
            "Your api key: ****e9c3 is invalid for deepseek-r1-distill-qwen-32b-awq-int4-2025, request 7d1c1f5e-5b1a-4e0c-9d3e-2a4f5b6c7d8e"
        ),
    )
    assert failure.message == (
        "Your api key: *** is invalid for deepseek-r1-distill-qwen-32b-awq-int4-2025, "
        "request 7d1c1f5e-5b1a-4e0c-9d3e-2a4f5b6c7d8e"
    )


def test_a_short_dummy_key_spoils_no_words() -> None:
    """A key such as `none` is removed only as a word of its own."""
    redact = Redactor(["none", "x"])
    assert redact("key none is wrong, nonetheless x") == "key *** is wrong, nonetheless x"


@given(body=st.binary(max_size=200), status=st.none() | st.integers(300, 599))
def test_any_body_under_any_status_has_a_failure(body: bytes, status: int | None) -> None:
    """Classifying never raises."""
    assert isinstance(classify(status, {}, body), ModelFailure)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["error", "message", "code", "detail", "loc", "metadata", "raw", "status"]), inner
            )
        ),
    )
)
@example("\x00")
def test_any_json_body_has_a_failure(value: object) -> None:
    """Whatever nests in whatever; words of which nothing can be shown are no words."""
    failure = classify(400, {}, json.dumps(value).encode())
    assert failure.message


async def test_a_refusal_over_the_wire_keeps_words_and_hides_the_key(
    no_proxy: None, endpoint: ScriptedEndpoint
) -> None:
    """Status, words and wait arrive; the key that was sent does not come back (P17)."""
    config = EndpointConfig(base_url=endpoint.base_url, model="scripted", api_key=KEY)
    model = OpenAIChat(config, Capabilities())
    script = endpoint.script(http(429, said(f"too fast for {KEY}"), retry_after="3"), http(404, said("no such model")))
    first, second = await ask(model, script), await ask(model, script)
    await model.aclose()
    assert first.failure is not None
    assert second.failure is not None
    assert script.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (first.failure.code, first.failure.retry_after_s) == ("model_rate_limited", 3.0)
    assert first.failure.message == "too fast for ***"
    assert KEY not in first.failure.body
    assert KEY not in repr(config)
    assert (second.failure.code, second.failure.message) == ("model_rejected", "no such model")
