"""Iterators of loops that await: how far they have come is a number in an attribute, which is cheap to keep.

They go over what Python's own iterators go over, in the same way; what has an iterator of its own keeps it.
"""

from __future__ import annotations

import gc
import itertools
import re
import types
from collections import abc
from operator import is_
from typing import Any


def made(value: Any) -> Any:
    """As `iter`, of what was made for the loop: nobody sees when it finds what it finds, if it looks for it in a text."""
    if type(value) is _CALLS:
        method = value.__reduce__()[1][0]
        if type(getattr(method, "__self__", None)) is _SCANNER:
            return ListCursor(list(value))
    return over(value)


def over(value: Any) -> Any:
    """As `iter`."""
    kind: Any = type(value)
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
    return _MIXINS[kind.__iter__](value) if getattr(kind, "__iter__", None) in _MIXINS else iter(value)


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


class PairwiseCursor(Cursor):
    def __init__(self, whole: Any) -> None:
        self.inner = over(whole)
        self.before: list[Any] = []

    def __next__(self) -> Any:
        if not self.before:
            self.before.append(next(self.inner))
        found = self.before[0], next(self.inner)
        self.before[0] = found[1]
        return found


class BatchedCursor(Cursor):
    def __init__(self, whole: Any, size: int) -> None:
        # It says itself what is wrong with a size.
        getattr(itertools, "batched")((), size)
        self.inner = over(whole)
        self.size = size

    def __next__(self) -> Any:
        found = tuple(itertools.islice(self.inner, self.size))
        if not found:
            raise StopIteration
        return found


class SequenceCursor(Cursor):
    """As `collections.abc.Sequence` goes over what is one."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self.at = 0

    def __next__(self) -> Any:
        try:
            if self.whole is None:
                raise IndexError
            found = self.whole[self.at]
        except IndexError:
            self.whole = None
            raise StopIteration from None
        self.at += 1
        return found


class MappingCursor(Cursor):
    """As the views of `collections.abc` go over a mapping."""

    def __init__(self, view: Any) -> None:
        self.whole = view._mapping
        self.keys = over(self.whole)
        self.shape = next(each for each in _OF_MAPPINGS if isinstance(view, each))

    def __next__(self) -> Any:
        key = next(self.keys)
        if self.shape is abc.KeysView:
            return key
        return self.whole[key] if self.shape is abc.ValuesView else (key, self.whole[key])


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
_OF_MAPPINGS: tuple[Any, ...] = (abc.KeysView, abc.ValuesView, abc.ItemsView)
# Generators of Python's own that go over containers, and what does the same.
_MIXINS: dict[Any, Any] = {abc.Sequence.__iter__: SequenceCursor, **{each.__iter__: MappingCursor for each in _OF_MAPPINGS}}
_CALLS, _SCANNER = type(iter(int, 1)), type(getattr(re.compile(""), "scanner")(""))
