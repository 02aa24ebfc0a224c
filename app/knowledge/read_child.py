"""The program that reads one file and ends: `python -m app.knowledge.read_child NAME MEDIA_TYPE MB SECONDS`.

Bytes come on stdin, a `ReadDocument` or `ReadFailure` as JSON goes to stdout. It limits its own memory
and processor time first, so that a broken or hostile file can hurt nothing but this process. Started by
app/knowledge/reader.py only.
"""

import os
import sys

import msgspec

from app.knowledge.read import read

NICENESS = 10
"""Reading yields the processor to whoever chats."""


def main() -> None:
    """Read stdin, answer on stdout."""
    name, media_type, memory_mb, cpu_s = sys.argv[1:5]
    _limit(memory_bytes=int(memory_mb) * 1024 * 1024, cpu_s=int(cpu_s))
    answer = msgspec.json.encode(read(sys.stdin.buffer.read(), name=name, media_type=media_type))
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def _limit(*, memory_bytes: int, cpu_s: int) -> None:
    """Hard limits where the system has them; on Windows the parent's clock alone bounds the work."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  not on every system

    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))  # ends a child whose server is gone
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)


if __name__ == "__main__":
    main()
