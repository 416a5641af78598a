"""The order of sets: one that was read goes through its elements in the order in which it did when it was written.

Python promises no order, but the same one each time as long as a set does not change, and programs rely on that: they go
over a set, await, and go over it again. The order follows from the hashes, from the size of the set's table, and from who
came first; so an order of coming is sought that leads to the same table. The hashes of text are those of the workers, which
all have one seed; objects that are hashed by where they lie in memory have new places.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
import sysconfig
from typing import Any, Iterator, Optional

# Larger ones are taken as they come: each time that they change, all of this is done again.
EXACT_MAX = 1024
_LINEAR, _SHIFT, _SMALL = 9, 5, 8
_HEAD, _ENTRY = struct.Struct("nnnP"), struct.Struct("Pn")
_DUMMY = -1

# The size of a table, what comes into it one after the other, and what of that is taken out again.
Recipe = tuple[int, list[Any], list[int]]
Table = list[tuple[int, int]]


def recipe(value: set[Any]) -> Optional[Recipe]:
    """How an empty set is filled so that it has the order of this one, if its elements one after the other do not do it."""
    wanted = list(value)
    if len(wanted) > EXACT_MAX or _is_like(set(wanted), wanted):
        return None
    table = _table(value)
    found = _Coming(table, wanted).found() if table is not None else None
    if found is None:
        return None
    made: set[Any] = set()
    fill(made, *found)
    return found if _is_like(made, wanted) else None


def fill(value: set[Any], size: int, coming: list[Any], out: list[int]) -> None:
    value.clear()
    first = min(len(coming), size // 2 - 1) if size > _SMALL else 0
    # A dict gives the table its size at once.
    value.update(dict.fromkeys(coming[:first]))
    for each in coming[first:]:
        value.add(each)
    for each in out:
        value.discard(each)


def _is_like(made: set[Any], wanted: list[Any]) -> bool:
    return len(made) == len(wanted) and all(one is other for one, other in zip(made, wanted))


def _table(value: set[Any]) -> Optional[Table]:
    """The places of a set's table, each with the address of what lies there, or 0, and its hash."""
    if not _is_known():
        return None
    _, used, mask, place = _HEAD.unpack(ctypes.string_at(id(value) + object.__basicsize__, _HEAD.size))
    if used != len(value):
        return None
    return list(_ENTRY.iter_unpack(ctypes.string_at(place, _ENTRY.size * (mask + 1))))


@functools.lru_cache(maxsize=None)
def _is_known() -> bool:
    """Do sets lie in memory as they have for many versions?"""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or struct.calcsize("P") != 8:
        return False
    probe = {1, 2, 3}
    probe.discard(2)
    filled, used, mask, place = _HEAD.unpack(ctypes.string_at(id(probe) + object.__basicsize__, _HEAD.size))
    return (filled, used, mask) == (3, 2, 7) and id(probe) < place < id(probe) + sys.getsizeof(probe)


class _Coming:
    """An order in which each element comes after those that lie where it was to lie."""

    def __init__(self, table: Table, wanted: list[Any]) -> None:
        self.table = table
        self.mask = len(table) - 1
        self.elements = {id(each): each for each in wanted}
        self.placed: set[int] = set()
        self.coming: list[Any] = []
        self.out: list[int] = []
        # Numbers that are no elements.
        self.least = 1 + max((abs(each) for each in wanted if isinstance(each, int)), default=0) // len(table)

    def found(self) -> Optional[Recipe]:
        for place, (key, _) in enumerate(self.table):
            if key in self.elements and not self.put(place):
                return None
        if len(self.table) > _SMALL:
            # The table is that large.
            free = (place for place, (key, _) in enumerate(self.table) if not key)
            for place in itertools.islice(free, max(0, max(5, len(self.table) // 4) - len(self.coming))):
                self.hold(place)
        return len(self.table), self.coming, self.out

    def put(self, start: int) -> bool:
        waiting = [start]
        while waiting:
            place = waiting[-1]
            key, hashed = self.table[place]
            if hashed == _DUMMY:
                # Something has been there.
                self.hold(place)
            else:
                before = next((each for each in self.path(hashed, place) if each not in self.placed), None)
                if before in waiting or (before is not None and not self.table[before][0]):
                    return False
                if before is not None:
                    waiting.append(before)
                    continue
                if place not in self.placed:
                    self.coming.append(self.elements[key])
            self.placed.add(waiting.pop())
        return True

    def hold(self, place: int) -> None:
        """A number that lies at a place comes, and will be taken out."""
        number = self.least * len(self.table) + place
        self.coming.append(number)
        self.out.append(number)

    def path(self, hashed: int, end: int) -> Iterator[int]:
        """The places where an element with this hash was to lie before this one."""
        perturb = hashed % (1 << 64)
        place = perturb & self.mask
        for _ in range(len(self.table)):
            for each in range(place, place + (_LINEAR if place + _LINEAR <= self.mask else 0) + 1):
                if each == end:
                    return
                yield each
            perturb >>= _SHIFT
            place = (place * 5 + 1 + perturb) & self.mask
