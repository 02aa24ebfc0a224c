"""SIGTERM and SIGINT, heard."""

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


def on_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Have this handler called for SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def exit_orderly(number: int, frame: FrameType | None) -> NoReturn:
    """A handler that ends the process with status 0, through every `finally` on the way."""
    del number, frame
    sys.exit(0)
