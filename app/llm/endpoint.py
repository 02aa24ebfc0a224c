"""Where an endpoint is, how it is paid and how long it may take: one frozen record, checked when it is made.

Decides how a base URL becomes a request's URL and headers. Does not open a connection.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from app.llm.capabilities import IdFormat

_VISIBLE = re.compile(r"[!-~]+")
_CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """An OpenAI-protocol endpoint and one of its models. Times are seconds; there is no total timeout.

    `base_url` is taken with or without `/v1`, with a trailing slash, with Azure's `?api-version=`, and also as
    the whole URL of the chat completions. `read_timeout_s` measures silence, `progress_timeout_s` the time
    without a delta though bytes come, `settle_timeout_s` the wait for usage and [DONE] after a finish reason.
    `model` may be blank where the server has only one. `parallel_tool_calls` is sent where it is not None.
    `id_format` None means: by the host's name.

    Raises:
        ValueError: a field can't be used; the text says which and what is allowed.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 300.0
    progress_timeout_s: float = 300.0
    settle_timeout_s: float = 5.0
    parallel_tool_calls: bool | None = None
    id_format: IdFormat | None = None

    def __post_init__(self) -> None:
        parts = _split(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base_url must be http(s)://host[/path], not {_shown(self.base_url)!r}")
        if self.api_key and not _VISIBLE.fullmatch(self.api_key):
            raise ValueError("api_key may hold only visible ASCII characters")
        for name in ("connect_timeout_s", "read_timeout_s", "progress_timeout_s", "settle_timeout_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0")

    @property
    def chat_url(self) -> str:
        """The URL of a chat request, without credentials."""
        return self.url_of(_CHAT)

    def url_of(self, route: str) -> str:
        """The URL of a route of this endpoint, such as `/embeddings`, without credentials."""
        parts = _split(self.base_url)
        return urlunsplit((parts.scheme, _host_and_port(parts), self._root(parts) + route, parts.query, ""))

    @property
    def host(self) -> str:
        """The host's name, for messages and for what is known of a provider."""
        return _split(self.base_url).hostname or ""

    @property
    def origin(self) -> str:
        """Endpoint and model in one string without secrets."""
        parts = _split(self.base_url)
        return f"{parts.scheme}://{_host_and_port(parts)}{self._root(parts)} {self.model}"

    @property
    def auth(self) -> tuple[str, str] | None:
        """User and password from the base URL, for basic authentication."""
        parts = _split(self.base_url)
        return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request. Azure's keyed API takes the key under a name of its own."""
        headers = {
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "turnstream",
        }
        if self.api_key and "api-version=" in _split(self.base_url).query:
            headers["api-key"] = self.api_key
        elif self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown: the key, a password, and values in the query but Azure's version."""
        parts = _split(self.base_url)
        values = [
            unquote(value)
            for name, _, value in (pair.partition("=") for pair in parts.query.split("&"))
            if name != "api-version"
        ]
        given = (self.api_key, parts.password, unquote(parts.password or ""), *values)
        return tuple(secret for secret in given if secret)

    @property
    def ids(self) -> IdFormat:
        """The ids of tool calls that this endpoint is known to take. Source: Mistral's API, case A14."""
        if self.id_format is not None:
            return self.id_format
        return IdFormat.NINE if self.host.endswith("mistral.ai") else IdFormat.ANY

    def _root(self, parts: SplitResult) -> str:
        path = parts.path.rstrip("/").removesuffix(_CHAT)
        if path:
            return path
        if parts.path.strip("/"):
            return ""
        if self.host.endswith(".openai.azure.com"):
            keyed = "api-version=" in parts.query
            return f"/openai/deployments/{self.model}" if keyed else "/openai/v1"
        return "/v1"


def _split(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url.strip())
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"base_url must be http(s)://host[/path], not {_shown(base_url)!r}") from error
    return parts


def _host_and_port(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _shown(base_url: str) -> str:
    """The URL without user, password and query, as far as it can be shown at all."""
    return re.sub(r"//[^/]*@", "//***@", base_url.partition("?")[0])
