"""What httpx raises -> a ModelFailure: the only mapper, one table.

Before a reply has begun a broken connection is Unreachable, afterwards Interrupted. Does not retry and does not
read bodies (app/llm/failures.py). A test holds the table complete over httpx's exception classes.
"""

import httpx

from app.llm.failures import Interrupted, ModelFailure, Unreachable
from app.llm.provider_error import Redactor

TRANSPORT_ERRORS: tuple[type[Exception], ...] = (httpx.HTTPError, httpx.InvalidURL, OSError)
"""What sending and reading may raise because of the other side or the way there."""

WORDS: dict[type[Exception], str] = {
    httpx.ConnectTimeout: "no connection within the connect timeout",
    httpx.ReadTimeout: "silent for longer than the read timeout",
    httpx.WriteTimeout: "the request could not be sent in time",
    httpx.PoolTimeout: "too many requests are open at once",
    httpx.TimeoutException: "timed out",
    httpx.ConnectError: "could not connect",
    httpx.ReadError: "the connection broke while reading",
    httpx.WriteError: "the connection broke while sending",
    httpx.CloseError: "the connection could not be closed",
    httpx.NetworkError: "the network failed",
    httpx.ProxyError: "the proxy refused",
    httpx.RemoteProtocolError: "the connection was closed, or the reply is not HTTP",
    httpx.LocalProtocolError: "the request is not valid HTTP",
    httpx.ProtocolError: "the reply is not HTTP",
    httpx.UnsupportedProtocol: "the base URL's scheme is not http or https",
    httpx.InvalidURL: "the base URL is not a URL",
    httpx.DecodingError: "the compressed reply is damaged",
    httpx.TooManyRedirects: "redirected too often",
    httpx.TransportError: "the request failed on its way",
    httpx.RequestError: "the request failed",
    httpx.HTTPError: "the request failed",
    OSError: "the network failed",
}
"""Our words for each class; what it says itself is added."""

LASTING: tuple[type[Exception], ...] = (
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    httpx.TooManyRedirects,
)
"""Errors of ours or of the settings: the same request fails in the same way again."""


def from_transport(error: Exception, *, began: bool, host: str, redact: Redactor) -> ModelFailure:
    """The failure for one of TRANSPORT_ERRORS. `began`: the reply's headers had arrived."""
    words = next((WORDS[kind] for kind in type(error).__mro__ if kind in WORDS), "the request failed")
    said = str(error).strip()
    reason = f"{words} ({said})" if said else words
    if began and not isinstance(error, LASTING):
        return Interrupted(redact.message(f"The reply from {host} broke off: {reason}."))
    return Unreachable(redact.message(f"{host} can't be reached: {reason}."), transient=not isinstance(error, LASTING))
