"""What a provider wrote when it refused -> its words, its codes and what it asked for, with secrets removed.

Reads any shape of error body: OpenAI's, FastAPI's, a list, a string, an upstream's body quoted within, plain
text, HTML, nothing. Does not decide what the refusal means (app/llm/failures.py).
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import cast
from urllib.parse import quote

from app.text import clean, cut

MESSAGE_CHARS = 500
BODY_CHARS = 4_000
MAX_BODY_BYTES = 64 * 1024
"""As much of an error body as is read."""

_CODE_KEYS = frozenset({"code", "type", "status", "error_code", "err_code", "errorcode", "reason"})
_ECHOES = frozenset({"input", "body", "ctx"})
"""Fields in which validators hand back what was sent to them: no evidence of what they say."""

_MESSAGE_KEYS = ("message", "detail", "error_msg", "msg", "error_message", "errors", "error", "title")
_DEPTH = 8

_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
_WAIT = re.compile(
    r"(?:try again in|retry (?:after|in)|retrydelay\W{1,4})\s*((?:\d+(?:\.\d+)?\s*(?:ms|h|m|s)[a-z]*\s*)+)",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

_KEY_LIKE = re.compile(
    r"""
    (?P<scheme>\b(?:bearer\s+(?!token|auth|scheme|key\b)|basic\s+(?=\S*\d)))[^\s"',;}]{4,}
    | (?P<userinfo>://)[^/@\s"']+(?=@)
    | (?P<named>\b(?:x-)?(?:api[-_ ]?key|access[-_]?token|auth[-_]?token|client[-_]?secret|secret|password)
        \\?["']?\s*[:=]\s*\\?["']?)(?!\*)[^\s"',;&}\\]{4,}
    | \b(?:sk|pk|rk|gsk|xai|nvapi|hf|pplx|csk|fw|ak|key|tok|token)[-_](?=[\w*-]*[\d*])[\w*-]{6,}
    | \bAIza[\w-]{20,}
    | \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?
    | \*{2,}[\w-]+
    | (?<!\w)(?=\w*\d)(?=\w*[a-z])\w{32,}
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error body as read.

    `words` are the provider's, blank where it gave none; `codes` are lower case, from every code-like field;
    `status` is an HTTP status written in the body; `evidence` is all its text, lower case; `asked_s` is a wait
    it asks for in words.
    """

    words: str
    codes: frozenset[str]
    status: int | None
    evidence: str
    asked_s: float | None


def read_error(body: bytes) -> ErrorBody:
    """Read an error body of any shape; never raises."""
    text = body[:MAX_BODY_BYTES].decode("utf-8", "replace")
    value = _json(text)
    if value is None:
        words = clean(_plain(text)).strip()
        return ErrorBody(words, frozenset(), None, f"{words}\n{text}".lower(), _asked(text))
    leaves = list(_leaves(value, ""))
    codes = frozenset(leaf.strip().lower() for key, leaf in leaves if key in _CODE_KEYS and leaf.strip())
    evidence = "\n".join(f"{key} {leaf}" for key, leaf in leaves)
    return ErrorBody(clean(_words(value, _DEPTH)).strip(), codes, _status(codes), evidence.lower(), _asked(evidence))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that headers ask for, in seconds, from seconds, milliseconds or an HTTP date. Source: RFC 9110 10.2.3.

    `now` is the time as POSIX seconds; `headers` finds names whatever their case.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or not given:
        return seconds
    try:
        return max(parsedate_to_datetime(given).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None


class Redactor:
    """Replaces secrets by `***`: those it was given, and what looks like a key, a token or a password."""

    __slots__ = ("_known",)

    def __init__(self, secrets: Iterable[str]) -> None:
        written = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))}
        patterns = [_exactly(form) for form in sorted(written, key=len, reverse=True) if len(form) > 2]
        self._known = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub("***", text)
        return _KEY_LIKE.sub(_kept_label, text)

    def message(self, text: str) -> str:
        """Words fit for a reader: one line, without secrets, at most MESSAGE_CHARS."""
        return cut(" ".join(self(clean(text)).split()), MESSAGE_CHARS)

    def body(self, body: bytes) -> str:
        """A raw body fit for the log: without secrets, at most BODY_CHARS."""
        return cut(self(clean(body[:MAX_BODY_BYTES].decode("utf-8", "replace"))), BODY_CHARS)


def _exactly(secret: str) -> str:
    """A pattern of the secret; a short one only as a word of its own, so that a dummy key spoils no words."""
    quoted = re.escape(secret)
    return quoted if len(secret) >= 8 else rf"(?<!\w){quoted}(?!\w)"


def _kept_label(match: re.Match[str]) -> str:
    label = match["scheme"] or match["userinfo"] or match["named"] or ""
    return f"{label}***"


def _json(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _plain(text: str) -> str:
    """The words of a body that isn't JSON: of a page only its title."""
    if _MARKUP.match(text):
        title = _TITLE.search(text)
        return title[1].strip() if title else ""
    return text.strip()


def _leaves(value: object, key: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every scalar with the lower-case name of its field, also inside JSON that is quoted in a string."""
    if depth > _DEPTH or value is None:
        return
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if name not in _ECHOES:
                yield from _leaves(inner, name.lower(), depth + 1)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner, key, depth + 1)
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and (quoted := _json(value)) is not None:
        yield from _leaves(quoted, key, depth + 1)
    else:
        yield key, str(value)


def _words(value: object, depth: int) -> str:
    """What the provider says in words: its message, with an upstream's message where it quotes one."""
    if depth == 0 or value is None or isinstance(value, bool | int | float):
        return ""
    if isinstance(value, str):
        quoted = _json(value) if value.lstrip()[:1] in ("{", "[") else None
        return value if quoted is None else _words(quoted, depth - 1) or value
    if isinstance(value, list):
        return "; ".join(filter(None, (_words(item, depth - 1) for item in cast("list[object]", value))))
    if not isinstance(value, dict):
        return ""
    fields = cast("dict[str, object]", value)
    if "loc" in fields:
        return _validation(fields)
    inner = fields.get("error")
    if isinstance(inner, dict | list) and (said := _words(cast("object", inner), depth - 1)):
        return said
    said = next((text for key in _MESSAGE_KEYS if (text := _words(fields.get(key), depth - 1))), "")
    metadata = fields.get("metadata")
    raw = cast("dict[str, object]", metadata).get("raw") if isinstance(metadata, dict) else None
    upstream = _words(raw, depth - 1)
    return f"{said}: {upstream}" if said and upstream and upstream not in said else said or upstream


def _validation(fields: dict[str, object]) -> str:
    """An entry of FastAPI's `detail`: which field, and what is wrong with it."""
    loc = fields.get("loc")
    where = ".".join(str(part) for part in cast("list[object]", loc)) if isinstance(loc, list) else str(loc)
    return f"{where}: {fields.get('msg') or fields.get('type') or 'refused'}"


def _status(codes: frozenset[str]) -> int | None:
    numbers = [int(code) for code in codes if len(code) == 3 and code.isascii() and code.isdigit()]
    return next((number for number in sorted(numbers) if 400 <= number < 600), None)


def _asked(text: str) -> float | None:
    found = _WAIT.search(text)
    if found is None:
        return None
    return sum(float(amount) * _SECONDS[unit.lower()] for amount, unit in _SPAN.findall(found[1]))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return max(value, 0.0) if math.isfinite(value) else None
