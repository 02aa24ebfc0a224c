"""Reads files beside the event loop: small text in a thread, everything else in a child process with limits.

Decides where a file is read and what a child's end means. A child that dies without an answer is
`ReaderDied`: the caller decides whether it may try again. Every child is awaited; a cancelled reading kills
its child first.
"""

import asyncio
import os
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import msgspec

import app
from app.knowledge.blocks import FailureReason
from app.knowledge.parse import Kind, kind_of
from app.knowledge.read import ReadDocument, ReadFailure, read


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What reading one file may take. `time_s` is wall time; processor time is bounded by the same figure."""

    memory_mb: int = 1_536
    time_s: float = 240.0
    inline_bytes: int = 256 * 1024


class ReaderDied(Exception):
    """The child ended without an answer: killed by a signal, or its interpreter broke.

    `status` is its exit status; `detail` is what it said last, which may quote the file.
    """

    def __init__(self, status: int | None, detail: str) -> None:
        super().__init__(f"ended with {status}")
        self.status = status
        self.detail = detail


async def read_file(data: bytes, *, name: str, media_type: str, limits: ReaderLimits) -> ReadDocument | ReadFailure:
    """The document, or why there is none.

    Raises:
        ReaderDied: the child ended without an answer.
    """
    kind = kind_of(name, media_type, data[:1024])
    if kind in {None, Kind.MARKDOWN, Kind.TEXT} and len(data) <= limits.inline_bytes:
        return await asyncio.to_thread(read, data, name=name, media_type=media_type)
    try:
        async with asyncio.timeout(limits.time_s):
            return await _in_child(data, name=name, media_type=media_type, limits=limits)
    except TimeoutError:
        return ReadFailure(
            FailureReason.TOO_SLOW,
            f"Reading the file took longer than the {limits.time_s:g} s allowed for one file.",
        )


async def _in_child(data: bytes, *, name: str, media_type: str, limits: ReaderLimits) -> ReadDocument | ReadFailure:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "app.knowledge.read_child"),
        *(name, media_type, str(limits.memory_mb), str(ceil(limits.time_s) + 1)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
    )
    try:
        out, err = await child.communicate(data)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        tail = err.decode(errors="replace")[-2_000:]
        raise ReaderDied(child.returncode, tail)
    return msgspec.json.decode(out, type=ReadDocument | ReadFailure)


def _environment() -> dict[str, str]:
    """Only what Python needs: a process that reads strangers' files gets no secrets of ours."""
    kept = {key: os.environ[key] for key in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if key in os.environ}
    return {**kept, "PYTHONPATH": str(Path(app.__path__[0]).parent), "PYTHONUTF8": "1"}
