"""What is logged and how it looks: one event per line, ours and the libraries', never anybody's text and no secret.

JSON where nobody looks on, plain text at a terminal. What an exception says is somebody's text sooner or later (a
statement's values, the input that didn't fit, a provider quoting the question), so below level debug only its type and
its frames are told, without their locals. Source: issue 9 item 4, decision 0022.
"""

import logging
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import structlog

_TALKATIVE = ("alembic", "httpx", "mcp", "procrastinate")
"""Libraries that are heard from warning on."""
_SAYING = frozenset(
    {
        "BrokenPipeError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "LogUnavailable",
        "StoreUnavailable",
        "TimeoutError",
    }
)
"""Exceptions whose words hold addresses at most."""

_records = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def configure_logging(level: str) -> None:
    """Log to stderr from this level on: debug, info, warning or error."""
    terminal = sys.stderr.isatty()
    number = logging.getLevelNamesMapping()[level.upper()]
    told = _Told(words=number <= logging.DEBUG)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if terminal:
        renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(exception_formatter=told.write)
    else:
        shared.append(structlog.processors.ExceptionRenderer(told.records))
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[told.first_line, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler], force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


class _Told:
    """What is told of an exception. `words`: also what each says."""

    def __init__(self, *, words: bool) -> None:
        self._words = words

    def records(self, exc_info: structlog.typing.ExcInfo) -> list[dict[str, Any]]:
        """The exception and, after it, what caused it: type, frames, and its words where they may be told."""
        told = _records(exc_info)
        if not self._words:
            _hush(told)
        return told

    def first_line(self, _: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Asyncio puts the repr of a task, and with it of its exception, below what it has to say."""
        if event["_record"].name == "asyncio" and not self._words:
            event["event"] = event["event"].partition("\n")[0]
        return event

    def write(self, out: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
        """The same for a person, the first cause first."""
        for record in reversed(self.records(exc_info)):
            out.writelines(
                f"\n  {frame['filename']}:{frame['lineno']} in {frame['name']}" for frame in record["frames"]
            )
            words = f": {record['exc_value']}" if record.get("exc_value") else ""
            out.write(f"\n{record['exc_type']}{words}")


def _hush(records: Sequence[dict[str, Any]]) -> None:
    for record in records:
        if record["exc_type"] not in _SAYING:
            for words in ("exc_value", "exc_notes", "syntax_error"):
                record.pop(words, None)
        stacks: Sequence[Sequence[dict[str, Any]]] = record.get("exceptions") or ()  # of an exception group
        for stack in stacks:
            _hush(stack)


__all__ = ["configure_logging"]
