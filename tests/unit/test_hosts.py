"""Which Host and Origin headers are let in, whatever they hold. The table of strangers is in tests/behaviour/test_mcp.py."""

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from app.api.hosts import stranger

ALLOWED = ("kb.example", "other.example:8443")
PIECES = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    "kb.example",
    "evil",
    ".",
    ":",
    "80",
    "@",
    "/",
    "http://",
    "[",
    "]",
    "%00",
    " ",
]


def refused(*headers: tuple[str, str]) -> bool:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return stranger(Headers(raw=raw), ALLOWED) is not None


def test_a_host_is_named_exactly_once() -> None:
    """Without one, or with two, it can't be known whom the request means."""
    assert not refused(("host", "localhost"))
    assert refused()
    assert refused(("host", "localhost"), ("host", "localhost"))
    assert refused(("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost"))


def test_an_allowed_name_with_a_port_is_that_port_only() -> None:
    """A name alone stands for every port."""
    assert not refused(("host", "kb.example:1"))
    assert not refused(("host", "OTHER.example:8443"))
    assert refused(("host", "other.example:8444"))
    assert refused(("host", "other.example"))


def test_an_address_of_this_machine_is_loopback_in_every_spelling() -> None:
    """127.0.0.0/8 and ::1; other addresses only where they are allowed."""
    assert not refused(("host", "127.200.0.1:80"))
    assert not refused(("host", "[0:0:0:0:0:0:0:1]"))
    assert refused(("host", "0.0.0.0"))
    assert refused(("host", "[::2]"))
    assert refused(("host", "10.0.0.1"))


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.sampled_from(["host", "origin"]))
def test_what_is_let_in_names_this_server(value: str, header: str) -> None:
    """No header breaks the check, and nothing evil passes it."""
    headers = [("host", "localhost")] if header == "origin" else []
    if not refused(*headers, (header, value)):
        assert "evil" not in value
        assert "@" not in value


@given(st.text(alphabet=st.characters(max_codepoint=255)))
def test_no_header_breaks_the_check(value: str) -> None:
    """Anything that a header can hold."""
    refused(("host", value), ("origin", value))
