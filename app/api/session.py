"""The page's login: a token is given once and becomes a cookie that scripts can't read. Source: decision 0019."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from app.api import principal
from app.api.access import COOKIE, needs_page_header, session_secret
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.auth.gate import Gate
from app.errors import AppError, RefusalCode


class Token(BaseModel):
    """A token of `turnstream token create`, or one that the configured issuer signed."""

    model_config = ConfigDict(extra="forbid")

    token: SecretStr = Field(min_length=1, max_length=16_384)


class Session(BaseModel):
    """Who asks. `scope` is the most that is allowed in any base."""

    auth: Literal["none", "token", "oidc"]
    owner: str
    scope: Literal["read", "write", "admin"]


def router(gate: Gate | None, auth: Literal["none", "token", "oidc"]) -> APIRouter:
    """The routes; without a gate there is nothing to log in to."""
    routes = APIRouter(prefix="/api/session", tags=["session"], responses=RESPONSES)

    def told(who: Principal) -> Session:
        return Session.model_validate({"auth": auth, "owner": who.owner, "scope": who.scope.word})

    @routes.get("")
    async def show(who: Annotated[Principal, Depends(principal.current)]) -> Session:
        """Who asks, and with what scope."""
        return told(who)

    @routes.post("")
    async def login(body: Token, request: Request, response: Response) -> Session:
        """Begin a session. It lasts a week, or as long as the token; its cookie is for this server's own page."""
        needs_page_header(request.headers)
        if gate is None:
            raise AppError(RefusalCode.CONFLICT, "This server asks nobody who they are; there is nothing to log in to.")
        login = await gate.login(body.token.get_secret_value().strip())
        response.set_cookie(
            COOKIE,
            login.secret,
            max_age=login.lasts_s,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",  # as it came, or as a trusted proxy says that it came
        )
        return told(login.principal)

    @routes.delete("", status_code=204)
    async def logout(request: Request, response: Response) -> None:
        """End the session, wherever its cookie was copied to."""
        needs_page_header(request.headers)
        secret = session_secret(request.headers)
        if gate is not None and secret is not None:
            await gate.logout(secret)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")

    return routes
