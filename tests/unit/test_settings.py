"""The settings: what is read from where, and the one line that a wrong value stops the start with."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.gate import OidcConfig
from app.auth.principal import Scope
from app.auth.rates import Lane
from app.settings import PREFIX, Settings, SettingsError, is_loopback, read

OPEN = "can be reached by others while TURNSTREAM_AUTH is none; allowed is a loopback address such as 127.0.0.1"
ISSUER = "an https:// address, or http:// on a loopback address, without query"
ENDPOINT = "allowed is the address of an OpenAI-compatible endpoint"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting from outside: neither the environment's nor a .env file's."""
    for name in [name for name in os.environ if name.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def given_settings(monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"{PREFIX}{name}", value)


def test_without_any_setting_it_serves_locally_and_offline() -> None:
    """DESIGN 3: the defaults of the fixed names."""
    settings = read()
    assert (settings.host, settings.port, settings.auth) == ("127.0.0.1", 8000, "none")
    assert (settings.database_url, settings.redis_url) == (None, None)
    assert (settings.llm_base_url, settings.llm_api_key, settings.llm_model) == (None, None, None)
    assert (settings.llm_read_timeout_s, settings.llm_connect_timeout_s) == (300, 10)
    assert (settings.max_rounds, settings.heartbeat_s) == (6, 15)
    assert settings.data_dir.name == "turnstream"


@pytest.mark.parametrize(
    ("values", "running", "per_minute"),
    [
        ({}, None, {}),
        ({"MAX_RUNNING_TURNS": "3", "MAX_TOKENS_PER_MINUTE": "9"}, 3, {Lane.TOKENS: 9}),
        ({"AUTH": "token"}, 20, {Lane.REQUESTS: 600, Lane.TABS: 600}),
        ({"AUTH": "token", "MAX_RUNNING_TURNS": "0", "MAX_REQUESTS_PER_MINUTE": "0"}, None, {}),
        ({"AUTH": "token", "MAX_REQUESTS_PER_MINUTE": "7"}, 20, {Lane.REQUESTS: 7, Lane.TABS: 7}),
    ],
)
def test_limits_hold_unasked_only_where_it_is_known_who_asks(
    monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str], running: int | None, per_minute: dict[Lane, int]
) -> None:
    """Zero takes one away. Source: decision 0020."""
    given_settings(monkeypatch, values)
    settings = read()
    assert (settings.running_turns_limit, settings.per_minute) == (running, per_minute)


def test_every_setting_is_documented() -> None:
    """A name without a word about it can't be set by anybody."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_values_come_from_the_environment_before_the_env_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """DESIGN 3: also read from `.env`; what is unknown there is somebody else's."""
    (tmp_path / ".env").write_text(
        f"{PREFIX}PORT=9000\n{PREFIX}MAX_ROUNDS=3\nOTHER=1\n{PREFIX}LLM_API_KEY=k\n", encoding="utf-8"
    )
    given_settings(monkeypatch, {"PORT": "9001", "DATA_DIR": str(tmp_path / "data"), "HEARTBEAT_S": ""})
    settings = read()
    assert (settings.port, settings.max_rounds, settings.heartbeat_s) == (9001, 3, 15)
    assert settings.data_dir == tmp_path / "data"
    assert settings.llm_api_key is not None
    assert settings.llm_api_key.get_secret_value() == "k"


@pytest.mark.parametrize(
    "values",
    [
        {"DATABASE_URL": "postgres://u:p@h/db"},
        {"DATABASE_URL": "postgresql://u:p@h/db"},
        {"DATABASE_URL": "postgresql+asyncpg://u:p@h/db"},
        {"LLM_BASE_URL": "http://localhost:1234/v1", "LLM_MODEL": "m"},
        {"LLM_BASE_URL": "https://[::1]:1234/v1"},
        {"HOST": "::1"},
        {"HOST": "localhost"},
        {"HOST": "127.8.9.1"},
        {"HOST": "0.0.0.0", "OPEN_NETWORK": "true"},
        {"HOST": "0.0.0.0", "AUTH": "token"},
        {"HOST": "::", "AUTH": "oidc", "OIDC_ISSUER": "http://127.0.0.1:1/x", "OIDC_AUDIENCE": "a"},
        {"PORT": "0"},
        {"MAX_ROUNDS": "1"},
    ],
)
def test_an_allowed_value_is_taken(monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str]) -> None:
    """What a person may set."""
    given_settings(monkeypatch, values)
    assert isinstance(read(), Settings)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"PORT": "70000"}, "PORT: '70000' was given; allowed is less than or equal to 65535"),
        ({"PORT": "-1"}, "PORT: '-1' was given; allowed is greater than or equal to 0"),
        ({"PORT": "http"}, "PORT: 'http' was given; allowed is a valid integer, unable to parse string as an integer"),
        ({"MAX_ROUNDS": "0"}, "MAX_ROUNDS: '0' was given; allowed is greater than or equal to 1"),
        ({"HEARTBEAT_S": "0"}, "HEARTBEAT_S: '0' was given; allowed is greater than 0"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL: 'loud' was given; allowed is 'debug', 'info', 'warning' or 'error'"),
        ({"AUTH": "maybe"}, "AUTH: 'maybe' was given; allowed is 'none', 'token' or 'oidc'"),
        (
            {"LLM_BASE_URL": "localhost:1"},
            "LLM_BASE_URL: 'localhost:1' was given; allowed is an http:// or https:// address",
        ),
        ({"LLM_BASE_URL": "ftp://h"}, "LLM_BASE_URL: 'ftp://h' was given; allowed is an http:// or https:// address"),
        ({"LLM_BASE_URL": "http://"}, "LLM_BASE_URL: 'http://' was given; allowed is an http:// or https:// address"),
        (
            {"LLM_BASE_URL": "http://[::1"},
            "LLM_BASE_URL: 'http://[::1' was given; allowed is an http:// or https:// address",
        ),
        (
            {"LLM_BASE_URL": "http://h:99999"},
            "LLM_BASE_URL: 'http://h:99999' was given; allowed is an http:// or https:// address",
        ),
        ({"DATABASE_URL": "mysql://u:secret@h/d"}, "DATABASE_URL: *** was given; allowed is a postgresql:// address"),
        (
            {"REDIS_URL": "http://u:secret@h"},
            "REDIS_URL: *** was given; allowed is a redis://, rediss:// or unix:// address",
        ),
        ({"HOST": "0.0.0.0"}, f"HOST: '0.0.0.0' {OPEN}"),
        ({"HOST": "example.org"}, f"HOST: 'example.org' {OPEN}"),
        (
            {"AUTH": "oidc", "OIDC_AUDIENCE": "a"},
            "OIDC_ISSUER: not given, though TURNSTREAM_AUTH is 'oidc', which needs it",
        ),
        (
            {"AUTH": "oidc", "OIDC_ISSUER": "https://i"},
            "OIDC_AUDIENCE: not given, though TURNSTREAM_AUTH is 'oidc', which needs it",
        ),
        ({"OIDC_ISSUER": "http://id.example"}, f"OIDC_ISSUER: 'http://id.example' was given; allowed is {ISSUER}"),
        (
            {"TRUSTED_PROXIES": '["*"]'},
            "TRUSTED_PROXIES: ['*'] was given; allowed is a JSON list of addresses such as 10.0.0.1, or networks such as 10.0.0.0/8",
        ),
        ({"OIDC_ISSUER": "https://i?x=1"}, f"OIDC_ISSUER: 'https://i?x=1' was given; allowed is {ISSUER}"),
        (
            {"AUTH": "oidc", "OIDC_ISSUER": "https://i", "OIDC_AUDIENCE": "a", "OIDC_READ_SCOPE": "turnstream:admin"},
            "OIDC_READ_SCOPE, OIDC_WRITE_SCOPE and OIDC_ADMIN_SCOPE: the same value was given twice; allowed are three different ones",
        ),
        ({"LLM_MODEL": "m"}, f"LLM_BASE_URL: not given, though TURNSTREAM_LLM_MODEL is 'm'; {ENDPOINT}"),
    ],
)
def test_a_wrong_value_stops_the_start_with_one_line(
    monkeypatch: pytest.MonkeyPatch, values: Mapping[str, str], line: str
) -> None:
    """DESIGN 3: the variable, what was given and what is allowed; a secret is never repeated."""
    given_settings(monkeypatch, values)
    with pytest.raises(SettingsError) as caught:
        read()
    assert str(caught.value) == f"{PREFIX}{line}"


def test_with_oidc_the_issuer_s_scopes_are_read_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gate is given; under any other AUTH there is no issuer."""
    values = {
        "AUTH": "oidc",
        "OIDC_ISSUER": "https://id.example/realm",
        "OIDC_AUDIENCE": "kb",
        "OIDC_ADMIN_SCOPE": "boss",
    }
    given_settings(monkeypatch, values)
    scopes = {"turnstream:read": Scope.READ, "turnstream:write": Scope.WRITE, "boss": Scope.ADMIN}
    assert read().oidc == OidcConfig("https://id.example/realm", "kb", "scope", scopes)
    given_settings(monkeypatch, {"AUTH": "token"})
    assert read().oidc is None


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.255.0.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(host: str, loopback: bool) -> None:
    """DESIGN 3: AUTH none is for loopback only."""
    assert is_loopback(host) is loopback


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1))
def test_whatever_is_given_as_an_address_is_taken_or_refused_in_one_line(value: str) -> None:
    """No value gets past the reading with another exception."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(f"{PREFIX}LLM_BASE_URL", value)
        outcome = reading()
    if isinstance(outcome, str):
        assert re.fullmatch(f"{PREFIX}LLM_BASE_URL: .* was given; allowed is an http:// or https:// address", outcome)
    else:
        assert outcome.llm_base_url == value


def reading() -> Settings | str:
    """The settings, or the line that stops the start."""
    try:
        return read()
    except SettingsError as error:
        return str(error)
