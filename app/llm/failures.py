"""What can go wrong between us and a model, as one tree, and the one classifier of a provider's refusal.

ModelFailure
 ├─ Unreachable       no answer was had: connect, DNS, TLS, reset before a reply, a reply that is no reply
 ├─ Unavailable       the endpoint says it can't right now: 408, 5xx
 ├─ RateLimited       429, or its like
 ├─ OutOfCredit       402, or a body that says the quota is used up, also under 429
 ├─ ContextTooLong    the request is larger than the model's window
 ├─ Rejected          any other refusal: bad key, unknown model, a field it doesn't take
 │   └─ ContentFiltered   the provider's filter stopped the question or the answer
 └─ Interrupted       the stream broke off, or went silent, after it had begun

A provider that words something in a new way is a line in one of the tables below. The order of evidence is:
structured code and provider family, reset hints, words, status (case P17).
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.errors import TurnErrorCode
from app.llm.model import Feature
from app.llm.provider_error import ErrorBody, Redactor, read_error, retry_after


class ModelFailure(Exception):
    """A model request that failed.

    `message` is fit for a reader: the provider's words with secrets removed. `body` is the raw reply for
    the log, secrets removed. `status` is None where no HTTP status was had. `retry_after_s` is what the
    provider asked for. `transient` says that the same request may succeed in a moment.
    """

    code: TurnErrorCode
    transient: bool = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        retry_after_s: float | None = None,
        transient: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s
        if transient is not None:
            self.transient = transient


class Unreachable(ModelFailure):
    code = TurnErrorCode.MODEL_UNREACHABLE
    transient = True


class Unavailable(ModelFailure):
    code = TurnErrorCode.MODEL_UNAVAILABLE
    transient = True


class RateLimited(ModelFailure):
    code = TurnErrorCode.MODEL_RATE_LIMITED
    transient = True


class OutOfCredit(ModelFailure):
    code = TurnErrorCode.MODEL_OUT_OF_CREDIT


class ContextTooLong(ModelFailure):
    code = TurnErrorCode.CONTEXT_TOO_LONG


class Rejected(ModelFailure):
    """`refused` names the features the refusal is about; empty where the provider did not say which."""

    code = TurnErrorCode.MODEL_REJECTED
    refused: frozenset[Feature] = frozenset()

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        refused: frozenset[Feature] = frozenset(),
    ) -> None:
        super().__init__(message, status=status, body=body)
        self.refused = refused


class ContentFiltered(Rejected):
    pass


class Interrupted(ModelFailure):
    code = TurnErrorCode.MODEL_INTERRUPTED
    transient = True


@dataclass(frozen=True, slots=True)
class Asked:
    """What a refusal is read against: who was asked, what for, and what must not be shown.

    `sent` are the features that the request made use of: only what was sent can have been refused. None
    where that isn't known.
    """

    host: str = ""
    sent: frozenset[Feature] | None = None
    redact: Redactor = field(default_factory=lambda: Redactor(()))


_TRANSIENT = frozenset({408, 425, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Statuses under which the same request may succeed in a moment. Source: DESIGN 6 and its gateways' kin."""

_STATUS_OF_CODE = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "internalerror": 500,
    "api_error": 500,
    "overloaded_error": 503,
    "overloaded": 503,
    "engine_overloaded_error": 503,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "timeout": 504,
    "timeout_error": 504,
    "request_timeout": 504,
    "bad_gateway": 502,
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "model_not_found": 404,
}
"""What a code stands for where an error comes without an HTTP status of its own: inside a stream (case P14)."""

_FILTERED_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "data_inspection_failed",
        "datainspectionfailed",
        "1301",
    }
)
_FILTERED = re.compile(r"content management policy|content exists risk|inappropriate content|blocked by .{0,20}filter")

_CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "1261"})
_CONTEXT = re.compile(
    r"""
      maximum\ (?:context|prompt|input|model)\ ?(?:length|tokens?|size)     # OpenAI, vLLM, OpenRouter, xAI
    | max(?:imum)?\ context\ length
    | (?:model's|available|total)\ context\ (?:length|size|window)          # SGLang, llama.cpp
    | exceeds?\ (?:the\ )?(?:available\ |model's\ |maximum\ )*context
    | context\ (?:length|window|size)\ (?:of\ )?(?:only|exceeds?|exceeded|is\ too|was\ exceeded|limit)
    | greater\ than\ the\ context\ length                                   # LM Studio
    | longer\ than\ the\ (?:maximum\ model|model's\ context)\ length        # vLLM, SGLang
    | (?:prompt|input|request|conversation)\ (?:length\ |tokens?\ (?:length\ )?)?(?:is\ |are\ )?too\ (?:long|large)
    | prompt\ exceeds\ max | exceeds\ maximum\ input\ length
    | input\ token\ count .{0,40} exceeds                                   # Gemini
    | input\ length\ (?:exceeds|should\ be)                                 # Ollama, DashScope
    | too\ many\ (?:input\ |prompt\ )?tokens
    | exceeded\ model\ token\ limit                                         # Moonshot
    | tokens`?\ \+\ `?max_new_tokens                                        # TGI
    | max_seq_len | max_model_len                                           # SiliconFlow, vLLM
    | reduce\ the\ length\ of\ (?:the\ )?(?:messages|prompt|input)
    | 超出.{0,8}(?:上下文|最大长度) | (?:上下文|输入)(?:长度)?.{0,6}(?:超过|超出|超长|过长)
    """,
    re.VERBOSE,
)
_LARGER_THAN_A_MINUTE = re.compile(r"request too large")
"""Under 429: a request that alone is over the limit of a minute; waiting never helps it. Source: OpenAI, Groq."""

_QUOTA_CODES = frozenset({"insufficient_quota"})
_RATE_CODES = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"})
_CREDIT_CODES = frozenset(
    {
        "insufficient_balance",
        "insufficient_user_quota",
        "insufficient_funds",
        "insufficient_credits",
        "credit_balance_too_low",
        "billing_hard_limit_reached",
        "billing_not_active",
        "exceeded_current_quota_error",
        "accountoverdueerror",
        "arrearage",
        "30001",
        "1113",
    }
)
_CREDIT = re.compile(
    r"insufficient[_ ](?:account[_ ])?(?:quota|balance|credits?|funds?)"
    r"|(?:balance|credits?|funds?) (?:is |are )?(?:too low|not enough|insufficient|exhausted|used up)"
    r"|out of credits?|no credits|(?:all|requires?|add|buy|purchase) (?:more |available )?credits"
    r"|exceeded your current quota|quota (?:is |has been )?(?:exhausted|used up)|payment required"
    r"|key limit exceeded|account.{0,30}(?:overdue|arrear|good standing)|余额不足|余额过低|欠费"
)
_THROTTLED = re.compile(
    r"throttling|per[- ](?:minute|second|hour|day)\b|\b[rt]p[md]\b|rate.?limit|allocated quota|too many requests"
)
_DASHSCOPE = re.compile(r"dashscope|aliyun")

_FEATURES = (
    (Feature.STREAM_OPTIONS, re.compile(r"stream_options|include_usage")),
    (Feature.PARALLEL_TOOL_CALLS, re.compile(r"parallel[_ ]tool[_ ]?calls?|parallel tool use")),
    (Feature.TOOL_CHOICE, re.compile(r"(?<!auto-)tool[_ ]?choice")),
    (
        Feature.CALL_IDS,
        re.compile(r"(?:tool[_ ]?call[_ ]?ids?|\bid\b).{0,60}(?:length|a-z|alphanumeric|9 char|pattern)"),
    ),
    (
        Feature.REASONING,
        re.compile(
            r"(?:unsupported|unknown|unrecognized|unexpected|extra|forbidden|not permitted).{0,60}reasoning"
            r"|reasoning(?:_content)?\b.{0,40}"
            r"(?:unsupported|not (?:supported|permitted|allowed)|forbidden|unexpected|extra)"
        ),
    ),
    (
        Feature.LATE_SYSTEM,
        re.compile(
            r"system (?:message|role|prompt)s?.{0,80}(?:first|begin|start|only|once|position|alternat|supported|one\b)"
            r"|(?:first|only one|multiple|one) .{0,30}system (?:message|role|prompt)"
            r"|roles must alternate|jinja|chat.?template|template.{0,20}(?:error|exception|render)|raise_exception"
        ),
    ),
)
"""A field or shape that a refusal names. Each can be dropped or reshaped while the tools stay (case P16)."""

_STARTED_WITHOUT_TOOLS = re.compile(r"enable-auto-tool-choice|requires? --jinja")
"""A server that must be started differently before it takes tools at all. Source: vLLM, llama.cpp."""

_TOOLS = re.compile(
    r"\b(?:tools?|functions?|tool.?us(?:e|ing)|(?:tool|function).?call(?:s|ing)?)\b(?:(?!role).){0,60}"
    r"(?:not (?:currently )?(?:support|allow|permit|available|enabled|implement)|n't support|unsupported|unrecognized"
    r"|unknown|unexpected|extra[_ ]|forbidden)"
    r"|(?:not support|n't support|that support|unsupported|unrecognized|unknown|unexpected|extra[_ ]|forbidden)"
    r"[^.]{0,60}\b(?:tools?|functions?|(?:tool|function).?(?:us(?:e|ing)|call(?:s|ing)?))\b"
)

_HINTS = {
    401: "The endpoint answered 401: the API key is missing or wrong.",
    403: "The endpoint answered 403: this API key may not use the model.",
    404: "The endpoint answered 404: check the base URL and the model's name.",
    413: "The endpoint answered 413: the request is larger than it takes.",
}
"""Words of our own, where the provider has none."""


def classify(
    status: int | None, headers: Mapping[str, str], body: bytes, *, asked: Asked | None = None
) -> ModelFailure:
    """The failure that a refusal stands for. `status` is None for an error that came inside a stream or with 200.

    `headers` must find a name whatever its case (httpx.Headers) or have lower-case names.
    """
    asked = asked or Asked()
    error = read_error(body)
    meant = status if status is not None else _status_within(error)
    message = asked.redact.message(error.words or _hint(meant, headers))
    kept = asked.redact.body(body)
    waits = retry_after(headers, time.time())
    wait_s = waits if waits is not None else error.asked_s
    if error.codes & _FILTERED_CODES or (meant in (None, 400, 403, 422) and _FILTERED.search(error.evidence)):
        return ContentFiltered(message, status=status, body=kept)
    if _is_too_long(meant, error):
        return ContextTooLong(message, status=status, body=kept)
    if meant == 402 or _is_out_of_credit(meant, error, asked.host, hinted=wait_s is not None):
        return OutOfCredit(message, status=status, body=kept)
    if _is_rate_limited(meant, error):
        return RateLimited(message, status=status, body=kept, retry_after_s=wait_s)
    refused = _refused(meant, error, asked.sent)
    if refused or (meant is not None and meant < 500 and meant not in _TRANSIENT):
        return Rejected(message, status=status, body=kept, refused=refused)
    if meant is None:
        return Interrupted(message, body=kept, retry_after_s=wait_s)
    return Unavailable(message, status=status, body=kept, retry_after_s=wait_s, transient=meant in _TRANSIENT)


def _status_within(error: ErrorBody) -> int | None:
    """The status an error without one of its own stands for: a number in it, or what its code means."""
    if error.status is not None:
        return error.status
    return next((_STATUS_OF_CODE[code] for code in sorted(error.codes) if code in _STATUS_OF_CODE), None)


def _hint(status: int | None, headers: Mapping[str, str]) -> str:
    if status is None:
        return "The endpoint reported an error without a reason."
    if 300 <= status < 400:
        target = headers.get("location", "an unnamed place")
        return f"The endpoint answered {status} and points to {target}: set the base URL to that."
    return _HINTS.get(status, f"The endpoint answered {status} without a reason.")


def _is_too_long(status: int | None, error: ErrorBody) -> bool:
    """A bare 413 counts: a smaller request is the only cure."""
    if status == 413 or error.codes & _CONTEXT_CODES:
        return True
    if status == 429:
        return _LARGER_THAN_A_MINUTE.search(error.evidence) is not None
    return status in (None, 400, 422, 500) and _CONTEXT.search(error.evidence) is not None


def _is_out_of_credit(status: int | None, error: ErrorBody, host: str, *, hinted: bool) -> bool:
    """Whether the account is empty. `insufficient_quota` is a throttle at DashScope; so is any with a reset hint."""
    throttled = _throttles(error.codes) or _THROTTLED.search(error.evidence) is not None
    if error.codes & _CREDIT_CODES:
        return True
    if error.codes & _QUOTA_CODES:
        dashscope = _DASHSCOPE.search(host) or _DASHSCOPE.search(error.evidence)
        return not (throttled or dashscope or (hinted and not host.endswith("openai.com")))
    if error.codes & _RATE_CODES or throttled or hinted:
        return False
    return status in (None, 400, 401, 403, 429) and _CREDIT.search(error.evidence) is not None


def _is_rate_limited(status: int | None, error: ErrorBody) -> bool:
    if status == 429 or error.codes & (_RATE_CODES | _QUOTA_CODES) or _throttles(error.codes):
        return True
    return status is None and _THROTTLED.search(error.evidence) is not None


def _throttles(codes: frozenset[str]) -> bool:
    return any(code.startswith("throttling") for code in codes)


def _refused(status: int | None, error: ErrorBody, sent: frozenset[Feature] | None) -> frozenset[Feature]:
    """The features that the refusal names and the request had; tools only where it names nothing smaller."""
    if status not in (None, 400, 404, 422, 500, 501):
        return frozenset()
    named = frozenset(feature for feature, pattern in _FEATURES if pattern.search(error.evidence))
    if _STARTED_WITHOUT_TOOLS.search(error.evidence) or (not named and _TOOLS.search(error.evidence)):
        named = frozenset({Feature.TOOLS})
    return named if sent is None else named & sent
