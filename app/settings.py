"""The settings: read once from the environment and `.env`, checked, and turned into small configs by parts.py.

Nobody below parts imports this. A wrong value stops the start with one line that names the variable, what was
given and what is allowed. Source: DESIGN section 3.
"""

import ipaddress
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.auth.addresses import is_loopback, is_trustworthy
from app.auth.gate import OidcConfig
from app.auth.principal import Scope
from app.auth.rates import Lane
from app.errors import StartError
from app.turn import prompts

PREFIX = "TURNSTREAM_"

RUNNING_TURNS = 20
"""A principal's, where who asks is known and nothing else is set."""
REQUESTS_PER_MINUTE = 600
"""Likewise: several busy tabs and an upload of many files are far below it."""


class SettingsError(StartError):
    """A setting that can't be used; the message is one line for the person who set it."""


class Settings(BaseSettings):
    """All settings, each readable as TURNSTREAM_<NAME>."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=".env", extra="ignore", env_ignore_empty=True)

    database_url: SecretStr | None = Field(
        None, description="A Postgres to use; unset: an embedded one under DATA_DIR."
    )
    database_pooler: bool = Field(
        default=False, description="DATABASE_URL leads to a proxy that pools transactions, such as pgbouncer."
    )
    database_connections: int = Field(10, ge=2, le=1_000, description="Connections to the database at most.")
    statement_timeout_s: float = Field(30, ge=1, description="How long one statement of the database may take.")
    data_dir: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("turnstream", appauthor=False),
        description="Where the embedded Postgres keeps its data.",
    )
    pg_bin_dir: Path | None = Field(None, description="The bin folder of another Postgres 18 for the embedded server.")
    pg_account: str | None = Field(None, description="As root: the account that runs the embedded server (nobody).")
    redis_url: SecretStr | None = Field(None, description="A Redis for the live log; unset: kept in this process.")

    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    auth: Literal["none", "token", "oidc"] = Field(
        "none", description="Who may ask: whoever reaches a loopback address, tokens made here, or an issuer's."
    )
    open_network: bool = Field(
        default=False,
        description="Serve without authentication on HOST though it isn't loopback: for a container whose port is "
        "published on its host's loopback only.",
    )

    oidc_issuer: str | None = Field(None, description="The OpenID issuer whose tokens are taken, with AUTH=oidc.")
    oidc_audience: str | None = Field(None, description="The audience that its tokens must be for.")
    oidc_scope_claim: str = Field("scope", description="The claim that says what is allowed; dots lead into objects.")
    oidc_read_scope: str = Field("turnstream:read", description="The claim's value that allows to read and ask.")
    oidc_write_scope: str = Field("turnstream:write", description="The value that allows to write too.")
    oidc_admin_scope: str = Field("turnstream:admin", description="The value that allows everything.")
    trusted_proxies: tuple[str, ...] = Field(
        ("127.0.0.1", "::1"), description="Whose X-Forwarded headers are believed, as a JSON list of addresses."
    )

    url: str | None = Field(None, description="The server that `turnstream ask` asks.")
    token: SecretStr | None = Field(None, description="What `turnstream ask` shows it, as a bearer token.")

    llm_base_url: str | None = Field(None, description="An OpenAI-compatible endpoint; unset: the offline model.")
    llm_api_key: SecretStr | None = Field(None, description="Its key.")
    llm_model: str | None = Field(None, description="The model's name there.")
    llm_read_timeout_s: float = Field(300, gt=0, description="How long the endpoint may be silent.")
    llm_connect_timeout_s: float = Field(10, gt=0, description="How long connecting may take.")
    llm_retries: int = Field(3, ge=0, le=10, description="How often a transient failure is tried again.")
    llm_retry_base_s: float = Field(0.5, gt=0, description="The wait before the first of them; it doubles.")
    llm_retry_max_wait_s: float = Field(20, ge=0, description="The longest wait before trying again.")

    embedding_base_url: str | None = Field(None, description="An OpenAI-compatible endpoint of embeddings.")
    embedding_api_key: SecretStr | None = Field(None, description="Its key.")
    embedding_model: str | None = Field(None, description="The embedding model's name there.")

    tools: tuple[str, ...] = Field((), description="Tools of installed packages to load, as a JSON list of names.")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Further names of the server, as a JSON list, beside HOST and the loopback ones."
    )

    show_reasoning: bool = Field(default=False, description="Show a thinking model's reasoning as a step.")
    prompt_version: int | None = Field(None, description="The version of the prompts; unset: the newest.")
    max_rounds: int = Field(6, ge=1, le=50, description="Model requests of a turn that may call tools.")
    heartbeat_s: float = Field(15, gt=0, description="A comment is sent on a stream that was quiet this long.")
    answer_max_chars: int = Field(400_000, ge=1_000, description="The longest answer that is published.")
    message_max_chars: int = Field(32_000, ge=1, description="The longest question that is taken.")
    max_upload_bytes: int = Field(50 * 1024 * 1024, ge=1, description="The largest file that is taken.")
    max_running_turns: int | None = Field(
        None, ge=0, description="Turns that one principal may have running; 0: any; unset: 20, with AUTH=none any."
    )
    max_requests_per_minute: int | None = Field(
        None, ge=0, description="Requests that one may make a minute; 0: any; unset: 600, with AUTH=none any."
    )
    max_tokens_per_minute: int = Field(
        0, ge=0, description="The model's tokens that one principal's turns may use a minute; 0: any."
    )
    save_timeout_s: float = Field(10, gt=0, description="How long storing an answer is tried.")
    drain_s: float = Field(30, ge=0, description="At shutdown, how long running turns may take to finish.")
    traces: Literal["off", "otlp"] = Field(
        "off", description="Whether turns are traced; otlp sends spans where the OTEL_EXPORTER_OTLP variables say."
    )
    retention_days: int | None = Field(
        None, ge=1, le=36_500, description="Conversations are deleted so many days after their last message."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged.")

    @field_validator("llm_base_url", "embedding_base_url")
    @classmethod
    def _an_http_address(cls, value: str | None) -> str | None:
        if value is not None and not _is_http(value):
            raise ValueError("an http:// or https:// address")
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _an_issuer(cls, value: str | None) -> str | None:
        if value is not None and not is_trustworthy(value):
            raise ValueError("an https:// address, or http:// on a loopback address, without query")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_is_network(given) for given in value):
            raise ValueError("a JSON list of addresses such as 10.0.0.1, or networks such as 10.0.0.0/8")
        return value

    @field_validator("prompt_version")
    @classmethod
    def _a_known_version(cls, value: int | None) -> int | None:
        if value is not None and value not in prompts.VERSIONS:
            raise ValueError(f"one of {prompts.listed()}")
        return value

    @field_validator("data_dir")
    @classmethod
    def _a_folder(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("database_url")
    @classmethod
    def _a_postgres_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgres://", "postgresql")):
            raise ValueError("a postgresql:// address")
        return value

    @field_validator("redis_url")
    @classmethod
    def _a_redis_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("a redis://, rediss:// or unix:// address")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.auth == "none" and not self.open_network and not is_loopback(self.host):
            raise ValueError(
                f"{PREFIX}HOST: {self.host!r} can be reached by others while {PREFIX}AUTH is none; "
                f"allowed is a loopback address such as 127.0.0.1"
            )
        if self.auth == "oidc":
            for name, value in (("ISSUER", self.oidc_issuer), ("AUDIENCE", self.oidc_audience)):
                if value is None:
                    raise ValueError(f"{PREFIX}OIDC_{name}: not given, though {PREFIX}AUTH is 'oidc', which needs it")
            if len({self.oidc_read_scope, self.oidc_write_scope, self.oidc_admin_scope}) < 3:
                raise ValueError(
                    f"{PREFIX}OIDC_READ_SCOPE, OIDC_WRITE_SCOPE and OIDC_ADMIN_SCOPE: the same value was given twice; "
                    "allowed are three different ones"
                )
        if self.llm_model is not None and self.llm_base_url is None:
            raise ValueError(
                f"{PREFIX}LLM_BASE_URL: not given, though {PREFIX}LLM_MODEL is {self.llm_model!r}; "
                "allowed is the address of an OpenAI-compatible endpoint"
            )
        if (self.embedding_base_url is None) != (self.embedding_model is None):
            missing, given = ("BASE_URL", "MODEL") if self.embedding_base_url is None else ("MODEL", "BASE_URL")
            raise ValueError(
                f"{PREFIX}EMBEDDING_{missing}: not given, though {PREFIX}EMBEDDING_{given} is; "
                "allowed is both or neither"
            )
        return self

    @property
    def running_turns_limit(self) -> int | None:
        """Per principal; None for any number."""
        return self._per_principal(self.max_running_turns, RUNNING_TURNS)

    @property
    def per_minute(self) -> dict[Lane, int]:
        """What a principal may do in a minute; without what isn't limited. Tabs may do as much once more."""
        requests = self._per_principal(self.max_requests_per_minute, REQUESTS_PER_MINUTE)
        limits = {Lane.REQUESTS: requests, Lane.TABS: requests, Lane.TOKENS: self.max_tokens_per_minute or None}
        return {lane: limit for lane, limit in limits.items() if limit is not None}

    def _per_principal(self, given: int | None, default: int) -> int | None:
        # where nobody is asked who they are there is one principal, whose machine it is: nothing is limited unasked
        unset = None if self.auth == "none" else default
        return unset if given is None else given or None

    @property
    def oidc(self) -> OidcConfig | None:
        """What is believed of an issuer's tokens; None where they aren't taken."""
        if self.auth != "oidc" or self.oidc_issuer is None or self.oidc_audience is None:
            return None
        scopes = {
            self.oidc_read_scope: Scope.READ,
            self.oidc_write_scope: Scope.WRITE,
            self.oidc_admin_scope: Scope.ADMIN,
        }
        return OidcConfig(self.oidc_issuer, self.oidc_audience, self.oidc_scope_claim, scopes)


def _is_network(given: str) -> bool:
    try:
        ipaddress.ip_network(given)
    except ValueError:
        return False
    return True


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a host or port that can't be one
        return False


def read() -> Settings:
    """The settings of this process.

    Raises:
        SettingsError: one line for the first value that can't be used.
    """
    try:
        return Settings()  # pyright: ignore[reportCallIssue]
    except ValidationError as error:
        raise SettingsError(_first(error)) from None


def _first(error: ValidationError) -> str:
    fault = error.errors()[0]
    if not fault["loc"]:
        return str(fault["ctx"]["error"]) if "ctx" in fault else fault["msg"]
    name = f"{PREFIX}{str(fault['loc'][0]).upper()}"
    secret = "KEY" in name or (name.endswith("_URL") and "LLM" not in name)
    given = "***" if secret else repr(fault["input"])
    allowed = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{name}: {given} was given; allowed is {allowed}"
