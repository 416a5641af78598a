"""How readers and writers of `csv` are written, which pickle does not know: by what they read from or write to."""

from __future__ import annotations

import csv
import gc
import io
import pickle
from typing import Any, Callable, Iterator

_PARTS = ("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting", "skipinitialspace", "strict")


class Feed:
    """The lines of a reader: first as many empty ones as it has read, so that it counts on."""

    def __init__(self, source: Iterator[Any], passed: int) -> None:
        self.source = source
        self.passed = passed

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> Any:
        if self.passed:
            self.passed -= 1
            return ""
        return next(self.source)


class Sink:
    """What a writer asks for the function that it writes with."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self.write = write


def _dialect(value: Any) -> dict[str, Any]:
    return {each: getattr(value.dialect, each) for each in _PARTS}


def _reader(value: Any) -> Any:
    held = gc.get_referents(value)
    source = next((each for each in held if hasattr(type(each), "__next__")), None)
    if source is None or any(type(each) is list and each for each in held):
        raise pickle.PicklingError("a reader that stands in the middle of a line")
    # It may have been made from what was written before.
    source = source.source if isinstance(source, Feed) else source
    return new_reader, (source, _dialect(value), value.line_num)


def new_reader(source: Iterator[Any], dialect: dict[str, Any], passed: int) -> Any:
    made = csv.reader(Feed(source, passed), **dialect)
    for _ in range(passed):
        next(made)
    return made


def _writer(value: Any) -> Any:
    found = (each for each in gc.get_referents(value) if callable(each) and not isinstance(each, type))
    write = next(found, None)
    if write is None:
        raise pickle.PicklingError("a writer that writes nowhere")
    return new_writer, (write, _dialect(value))


def new_writer(write: Callable[[str], Any], dialect: dict[str, Any]) -> Any:
    return csv.writer(Sink(write), **dialect)


TABLES: dict[Any, Callable[[Any], Any]] = {type(csv.reader(())): _reader, type(csv.writer(io.StringIO())): _writer}
