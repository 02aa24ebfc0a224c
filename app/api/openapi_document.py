"""The OpenAPI document, completed with what the framework can't know: the event streams and the frames in them.

The frames' schemas are made from their structs (app/live/frames.py), so that they can't differ from what is sent. A
stream's own schema is text; `x-itemSchema` says what one event of it holds, as OpenAPI 3.2's itemSchema does. Operation
ids are `tag_function`, and stay when an address changes: generated clients name their functions by them.
"""

from typing import Any, cast

import msgspec
from fastapi.routing import APIRoute

from app.api import access, openai_errors
from app.errors import TurnErrorCode
from app.live.frames import Conversation, Delta, Done, Failed, Snapshot, Source, Sources, Step

DESCRIPTION = """A chat server that shows its work.

A question starts a turn; its frames come as server-sent events, and any number of readers may attach to them. Refusals
are `{"error": {"code", "message"}}`; under `/v1` they have OpenAI's shape. Beside what is listed here, `/mcp` speaks
the Model Context Protocol (streamable HTTP) and `/` is the page.
"""

_FRAME = "{name}Frame"
_REF = "#/components/schemas/"
_KINDS = (Conversation, Step, Sources, Delta, Done, Failed, Snapshot)
_ENUMS = {
    ("StepFrame", "status"): ["ok", "empty", "error"],
    ("DoneFrame", "evidence"): ["cited", "uncited", "skipped", "none"],
    ("FailedFrame", "code"): [str(code) for code in TurnErrorCode],
}

FRAMES_EXAMPLE = """id: 0199c0de-0000-7000-8000-000000000001:1
event: conversation
data: {"id":"0199c0de-0000-7000-8000-000000000000","turn_id":"0199c0de-0000-7000-8000-000000000001",\
"message_id":"0199c0de-0000-7000-8000-000000000002","title":"Who sat on the board?"}

: keep-alive

id: 0199c0de-0000-7000-8000-000000000001:2
event: step
data: {"n":1,"at":0,"call_id":"call_1","tool":"search_chunks","kind":"search","label":"board",\
"detail":"1 passage in 1 document","status":"ok","ms":12}

id: 0199c0de-0000-7000-8000-000000000001:3
event: sources
data: [{"n":1,"kind":"chunk","id":"0199c0de-0000-7000-8000-000000000003",\
"document_id":"0199c0de-0000-7000-8000-000000000004","title":"The board","locator":"Members","excerpt":"Six people …"}]

id: 0199c0de-0000-7000-8000-000000000001:4
event: delta
data: {"at":0,"text":"Six people [1]."}

id: 0199c0de-0000-7000-8000-000000000001:5
event: done
data: {"message_id":"0199c0de-0000-7000-8000-000000000005","stopped":false,"evidence":"cited","cited":[1],\
"usage":{"prompt_tokens":812,"completion_tokens":96,"reasoning_tokens":null,"cached_tokens":null,"requests":2,\
"truncated":false}}

"""

CHUNKS_EXAMPLE = """data: {"id":"chatcmpl-0199c0de","object":"chat.completion.chunk","created":1764500000,\
"model":"gpt","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],\
"x_turnstream":{"conversation_id":"0199c0de-0000-7000-8000-000000000000","turn_id":"0199c0de","question_id":"0199c0df",\
"ignored":[]}}

data: {"id":"chatcmpl-0199c0de","object":"chat.completion.chunk","created":1764500000,"model":"gpt",\
"choices":[{"index":0,"delta":{"content":"Six people [1]."},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-0199c0de","object":"chat.completion.chunk","created":1764500000,"model":"gpt",\
"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],\
"x_turnstream":{"answer_id":"0199c0e0","stopped":false,"evidence":"cited","cited":[1]}}

data: [DONE]

"""


def stream_of_frames(description: str) -> dict[str, Any]:
    """The 200 response of a route that streams a turn's frames."""
    return {
        "description": description,
        "content": {"text/event-stream": _stream("TurnEvent", "Frames, as server-sent events.", FRAMES_EXAMPLE)},
    }


def completion(description: str, *, ids: dict[str, str]) -> dict[str, Any]:
    """The 200 response of a chat completion; `ids` are its headers with what they hold. Its JSON form is declared."""
    told = "Chunks as server-sent events, ended by `[DONE]`; an event `{error}` instead says that there is no answer."
    return {
        "description": description,
        "headers": {name: {"description": what, "schema": {"type": "string"}} for name, what in ids.items()},
        "content": {"text/event-stream": _stream("CompletionChunk", told, CHUNKS_EXAMPLE)},
    }


def operation_id(route: APIRoute) -> str:
    """A route's id in the document: its first tag and its function's name."""
    return f"{route.tags[0]}_{route.name}" if route.tags else route.name


def complete(document: dict[str, Any], *, protected: bool) -> dict[str, Any]:
    """The document with the schemas of what is streamed, and without refusals of a shape that is never sent.

    `protected`: who asks must say who they are, except where the table of routes lets anybody in.
    """
    schemas = cast("dict[str, Any]", document["components"]["schemas"])
    schemas |= _frames() | {"CompletionChunk": _chunk()}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            responses = operation["responses"]
            if openai_errors.speaks(path):
                responses.pop("422", None)  # said as 400 there
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    if protected:
        _secure(document)
    return document


def _secure(document: dict[str, Any]) -> None:
    """Say what credentials are, and which routes ask for one."""
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A token of this server's, or the issuer's."},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": access.COOKIE,
            "description": f"The page's login, under /api; changes need the header `{access.PAGE_HEADER}: page` too.",
        },
    }
    for path, operations in document["paths"].items():
        ways: list[dict[str, list[str]]] = [{"bearer": []}, *([{"session": []}] if path.startswith("/api/") else [])]
        for method, operation in operations.items():
            found = access.find(method.upper(), path)
            asks = found is None or found.need != access.OPEN
            operation["security"] = ways if asks else []


def _stream(event: str, description: str, example: str) -> dict[str, Any]:
    return {
        "schema": {"type": "string", "description": description},
        "x-itemSchema": {"$ref": f"{_REF}{event}"},
        "example": example,
    }


def _frames() -> dict[str, Any]:
    """A schema for each frame's data, and `TurnEvent`, which is one event of the stream."""
    structs = [kind for kind in _KINDS if kind is not Sources]
    _, found = msgspec.json.schema_components([*structs, Source], ref_template=f"{_REF}{_FRAME}")
    schemas: dict[str, Any] = {_FRAME.format(name=name): schema for name, schema in found.items()}
    for (name, field), values in _ENUMS.items():
        schemas[name]["properties"][field]["enum"] = values
    schemas["SourcesFrame"] = {
        "title": "Sources",
        "description": Sources.__doc__,
        "type": "array",
        "items": {"$ref": f"{_REF}SourceFrame"},
    }
    events = [_event(kind.event.decode(), _FRAME.format(name=kind.__name__)) for kind in _KINDS]
    idle = {
        "title": "idle",
        "description": "Nothing runs in the conversation. It has no id, and ends the stream.",
        "type": "object",
        "properties": {"event": {"const": "idle"}, "data": {"type": "object", "maxProperties": 0}},
        "required": ["event", "data"],
    }
    schemas["TurnEvent"] = {
        "description": "One event of a turn's stream: its id, its name, and its data, which is one line of JSON. "
        "Exactly one `done` or `error` ends a turn. Comment lines keep a quiet connection open.",
        "oneOf": [*events, idle],
    }
    return schemas


def _event(name: str, data: str) -> dict[str, Any]:
    told = "`<turn_id>:<seq>`, counting from 1 without gaps: what Last-Event-ID takes."
    return {
        "title": name,
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9a-f-]{36}:[0-9]+$", "description": told},
            "event": {"const": name},
            "data": {"$ref": f"{_REF}{data}"},
        },
        "required": ["id", "event", "data"],
    }


def _chunk() -> dict[str, Any]:
    told = (
        "In the first chunk the turn's ids and `ignored`; then a `step`, the `sources`, or after a take-over `steps` "
        "and `sources`; in the last one `answer_id`, `stopped`, `evidence` and `cited`."
    )
    return {
        "title": "CompletionChunk",
        "description": "A chunk of a streamed chat completion, as OpenAI's, with `x_turnstream` beside it.",
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "`chatcmpl-<turn_id>`"},
            "object": {"const": "chat.completion.chunk"},
            "created": {"type": "integer", "description": "Unix seconds."},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": {"type": "object"}, "maxItems": 1},
            "usage": {"anyOf": [{"type": "object"}, {"type": "null"}], "description": "With stream_options only."},
            "x_turnstream": {"type": "object", "description": told},
        },
        "required": ["id", "object", "created", "model", "choices"],
    }
