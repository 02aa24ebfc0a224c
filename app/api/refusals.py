"""Every refusal looks the same: `{"error": {"code", "message"}}` with a fitting status, before any SSE byte.

One mapper from our errors, the framework's and validation's to that shape. What has begun to stream can't be
refused any more; it ends with a frame. Under /v1 the shape is OpenAI's. Source: DESIGN section 4.
"""

from typing import Annotated, cast

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import Scope

from app.api import allowance, openai_errors
from app.api.request_ids import ROUTE
from app.errors import AppError, ErrorCode, RefusalCode, TurnErrorCode

_log = structlog.get_logger(__name__)


class RefusalBody(BaseModel):
    code: Annotated[str, Field(description="A stable code.")]
    message: Annotated[str, Field(description="What was wrong and what is allowed.")]


class Refusal(BaseModel):
    """The body of every refusal."""

    error: RefusalBody


RESPONSES: dict[int | str, dict[str, object]] = {
    status: {"model": Refusal} for status in (400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 503)
}
"""What every route may answer besides success, for the OpenAPI document."""


def install(app: FastAPI) -> None:
    """Register the mappers."""
    app.add_exception_handler(AppError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(Exception, _refuse_internal)


def response(code: ErrorCode, message: str, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    refusal = cast("AppError", error)
    if refusal.status >= 500:
        _log.error("refused", code=refusal.code, route=request.scope.get(ROUTE), exc_info=refusal)
    return told(request.scope, refusal, headers_of(refusal))


def headers_of(refusal: AppError) -> dict[str, str]:
    """When to ask again, where the refusal says so, and how to say who asks (RFC 9110 section 11.6.1)."""
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    if refusal.code is RefusalCode.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = 'Bearer realm="turnstream"'
    return headers


def told(scope: Scope, refusal: AppError, headers: dict[str, str]) -> JSONResponse:
    """The refusal in the shape that callers of its path read."""
    if isinstance(refusal, openai_errors.Unfit):
        param, known_as = refusal.param, refusal.known_as
        return _shaped(scope, refusal.code, refusal.message, refusal.status, headers, param=param, known_as=known_as)
    return _shaped(scope, refusal.code, refusal.message, refusal.status, headers)


async def _refuse_invalid(request: Request, error: Exception) -> JSONResponse:
    faults = cast("RequestValidationError", error).errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return _shaped(request.scope, RefusalCode.BAD_REQUEST, "The body is not valid JSON.", 400)
    parts = [f"{'.'.join(str(p) for p in f['loc'][1:]) or 'body'}: {f['msg']}" for f in faults[:5]]
    param = openai_errors.place(faults[0]["loc"][1:]) or None
    return _shaped(request.scope, RefusalCode.INVALID, "; ".join(parts), 422, param=param)


async def _refuse_http(request: Request, error: Exception) -> JSONResponse:
    known = cast("HTTPException", error)
    codes = {404: RefusalCode.NOT_FOUND, 405: RefusalCode.METHOD_NOT_ALLOWED, 413: RefusalCode.TOO_LARGE}
    code = codes.get(known.status_code, RefusalCode.BAD_REQUEST)
    message = f"There is no {request.url.path}." if known.status_code == 404 else str(known.detail)
    return _shaped(request.scope, code, message, known.status_code, dict(known.headers) if known.headers else None)


async def _refuse_internal(request: Request, error: Exception) -> JSONResponse:
    _log.error("request_failed", route=request.scope.get(ROUTE), exc_info=error)
    return _shaped(request.scope, TurnErrorCode.INTERNAL, "Something went wrong on our side; the log says what.", 500)


def _shaped(
    scope: Scope,
    code: ErrorCode,
    message: str,
    status: int,
    headers: dict[str, str] | None = None,
    *,
    param: str | None = None,
    known_as: str | None = None,
) -> JSONResponse:
    if openai_errors.speaks(scope["path"]):
        known = known_as or openai_errors.KNOWN_AS.get(code, code)
        headers = {**allowance.headers(scope), **(headers or {})}
        return openai_errors.response(known, message, status, headers, param=param)
    return response(code, message, status, headers)
