"""What actions print and log goes to the log of their attempt; what is printed outside of one goes where it went before."""

from __future__ import annotations

import io
import logging
import sys
from contextvars import ContextVar
from typing import Any, Callable, Optional, TextIO

# Most bytes of one attempt's output; the runner keeps no more.
OUTPUT_MAX = 16 * 1024 * 1024
# A line that is longer goes out in pieces.
LINE_MAX = 64 * 1024


class Output:
    """What one attempt prints, by stream, a line at a time."""

    __slots__ = ("_id", "_parts", "_post", "_sent")

    def __init__(self, id: int, post: Callable[[tuple[Any, ...]], None]) -> None:
        self._id = id
        self._post = post
        self._parts: Optional[dict[str, str]] = None
        self._sent = 0

    def write(self, stream: str, text: str) -> None:
        if self._parts is None:
            self._parts = {}
        text = self._parts.pop(stream, "") + text
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._emit(stream, whole)
        if len(rest) > LINE_MAX:
            self._emit(stream, rest, True)
        elif rest:
            self._parts[stream] = rest

    def finish(self) -> None:
        if self._parts:
            for stream, text in self._parts.items():
                self._emit(stream, text)
            self._parts.clear()

    def _emit(self, stream: str, text: str, goes_on: bool = False) -> None:
        if self._sent <= OUTPUT_MAX:
            self._sent += len(text)
            self._post(("log", self._id, stream, text, True) if goes_on else ("log", self._id, stream, text))


output: ContextVar[Optional[Output]] = ContextVar("lope_output", default=None)


class Captured(io.TextIOBase):
    """Stands for standard output or error."""

    def __init__(self, real: TextIO, stream: str) -> None:
        self._real = real
        self._stream = stream

    def write(self, text: str) -> int:
        to = output.get()
        if to is None:
            return self._real.write(text)
        to.write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        self._real.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._real.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._real.encoding

    @property
    def buffer(self) -> Any:
        return self._real.buffer


def install() -> None:
    """Before user code is loaded, so that whatever keeps a stream keeps ours."""
    sys.stdout = Captured(sys.stdout, "out")
    sys.stderr = Captured(sys.stderr, "err")


def install_logging() -> None:
    """After user code is loaded: logging that nobody has set up goes to the attempt's log too."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
