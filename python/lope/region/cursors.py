"""Iterators of loops that await: how far they have come is a number in an attribute, which is cheap to keep.

They go over what Python's own iterators go over, in the same way; what has an iterator of its own keeps it.
"""

from __future__ import annotations

import gc
import itertools
import types
from operator import is_
from typing import Any


def over(value: Any) -> Any:
    """As `iter`."""
    kind = type(value)
    if kind in _INDEXED:
        return ListCursor(value)
    if kind is dict:
        return DictCursor(value, "keys")
    if kind is set:
        return SetCursor(value)
    shape = _VIEWS.get(kind)
    if shape is not None:
        # A view shows its dict only through a proxy.
        whole = next((each for each in gc.get_referents(value) if type(each) is dict), None)
        if whole is not None:
            return DictCursor(whole, shape)
    return iter(value)


def rest(iterator: Any) -> Any:
    """What is left of an iterator, for one round more of a loop. One of the user's is not asked again where it begins."""
    plain = isinstance(iterator, Cursor) or not isinstance(getattr(type(iterator), "__iter__", rest), types.FunctionType)
    again: Any = itertools.repeat(iterator)
    following: Any = next
    return iterator if plain else map(following, again)


class Cursor:
    def __iter__(self) -> "Cursor":
        return self


class ListCursor(Cursor):
    """Goes over a list that may change meanwhile."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self.at = 0

    def __next__(self) -> Any:
        if self.whole is None or self.at >= len(self.whole):
            self.whole = None
            raise StopIteration
        self.at += 1
        return self.whole[self.at - 1]


class EnumerateCursor(Cursor):
    def __init__(self, whole: Any, start: int = 0) -> None:
        enumerate((), start)
        self.inner = over(whole)
        self.at = start

    def __next__(self) -> Any:
        found = next(self.inner)
        self.at += 1
        return self.at - 1, found


class ZipCursor(Cursor):
    def __init__(self, *wholes: Any) -> None:
        if not all(hasattr(type(each), "__iter__") for each in wholes):
            # It says itself what cannot be gone over.
            zip(*wholes)
        self.inner = [over(each) for each in wholes]

    def __next__(self) -> Any:
        if not self.inner:
            raise StopIteration
        return tuple([next(each) for each in self.inner])


class DictCursor(Cursor):
    def __init__(self, whole: dict[Any, Any], shape: str) -> None:
        self.whole: Any = whole
        self.size = len(whole)
        self.keys = list(whole)
        self.left = ListCursor(self.keys)
        self.shape = shape

    def __next__(self) -> Any:
        if self.whole is None:
            raise StopIteration
        if len(self.whole) != self.size:
            self.size = -1
            raise RuntimeError("dictionary changed size during iteration")
        try:
            key = next(self.left)
        except StopIteration:
            keys, self.whole = self.whole, None
            if not all(map(is_, keys, self.keys)):
                raise RuntimeError("dictionary keys changed during iteration") from None
            raise
        if key not in self.whole:
            raise RuntimeError("dictionary keys changed during iteration")
        if self.shape == "keys":
            return key
        return self.whole[key] if self.shape == "values" else (key, self.whole[key])


class SetCursor(Cursor):
    def __init__(self, whole: set[Any]) -> None:
        self.whole: Any = whole
        self.size = len(whole)
        self.left = ListCursor(list(whole))

    def __next__(self) -> Any:
        if self.whole is None:
            raise StopIteration
        if len(self.whole) != self.size:
            self.size = -1
            raise RuntimeError("Set changed size during iteration")
        try:
            found = next(self.left)
        except StopIteration:
            self.whole = None
            raise
        if found not in self.whole:
            # Python might go over what was put in its place.
            raise RuntimeError("Set changed during iteration: go over a copy")
        return found


_INDEXED = {list, tuple, range, str}
_VIEWS = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
