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
from operator import is_
from typing import AbstractSet, Any, Iterator, Optional

# Larger ones are taken as they come: each time that they change, all of this is done again.
EXACT_MAX = 1024
_LINEAR, _SHIFT, _SMALL = 9, 5, 8
_HEAD, _ENTRY = struct.Struct("nnnPnn"), struct.Struct("Pn")
_DUMMY = -1

# The size that a table gets at once; or 0, or less than that by how many come before it grows; what comes into it one after
# the other, and what of that is taken out again; and where `pop` goes on.
Recipe = tuple[int, list[Any], list[int], int]
# Of a frozenset: how many come before its table gets its size; those that give it, and what stands in for more of them; and
# what comes then one after the other.
Frozen = tuple[int, list[Any], list[int], list[Any]]


class Table:
    """How a set lies in memory: each place with the address of what lies there, or 0, and its hash."""

    def __init__(self, value: AbstractSet[Any]) -> None:
        _, used, mask, place, _, self.finger = _HEAD.unpack(ctypes.string_at(id(value) + object.__basicsize__, _HEAD.size))
        assert used == len(value)
        self.memory = ctypes.string_at(place, _ENTRY.size * (mask + 1))

    @functools.cached_property
    def places(self) -> list[tuple[int, int]]:
        return list(_ENTRY.iter_unpack(self.memory))

    def is_like(self, other: "Table") -> bool:
        return self.finger == other.finger and self.memory == other.memory


def recipe(value: set[Any]) -> Optional[Recipe]:
    """How an empty set is filled so that it is like this one, if its elements one after the other do not do it."""
    if len(value) > EXACT_MAX or not _is_known():
        return None
    wanted, table = list(value), Table(value)
    if Table(set(wanted)).is_like(table):
        return None
    ways: list[Recipe] = [(0, wanted, [], table.finger)]
    ways += _Coming(table, wanted).ways()
    made: set[Any] = set()
    best = None
    for way in ways:
        fill(made, *way)
        if Table(made).is_like(table):
            return way
        if len(made) == len(wanted) and all(map(is_, made, wanted)):
            # At least the order is the same.
            best = way
    return best


def fill(value: set[Any], size: int, coming: list[Any], out: list[int], finger: int) -> None:
    _point(value, finger)
    value.clear()
    first = max(-size, min(len(coming), size // 2 - 1) if size > _SMALL else 0)
    if size < 0:
        value.update(coming[:first])
    # A dict gives the table its size at once, also if nothing in it is new.
    value.update(dict.fromkeys(coming[:first]))
    for each in coming[first:]:
        value.add(each)
    for each in out:
        value.discard(each)


def frozen_recipe(value: frozenset[Any]) -> Optional[Frozen]:
    """As `recipe`, for one that cannot be changed."""
    if len(value) > EXACT_MAX or not _is_known():
        return None
    wanted, table = list(value), Table(value)
    if Table(frozenset(wanted)).is_like(table):
        return None
    best = None
    for way in (each for gone in (True, False) for each in _Coming(table, wanted).frozen_ways(gone)):
        made = frozen(*way)
        if Table(made).is_like(table):
            return way
        if best is None and len(made) == len(wanted) and all(map(is_, made, wanted)):
            best = way
    return best


def frozen(few: int, coming: list[Any], held: list[int], later: list[Any]) -> frozenset[Any]:
    if held:
        # They are in both, so they go again; the table keeps its size. What is in one alone comes.
        return frozenset([*held, *later]).symmetric_difference(dict.fromkeys([*coming, *held]))
    return frozenset(coming[:few]).union(dict.fromkeys(coming), later)


class Refrozen:
    """Stands for a frozenset where a reader is to make it in this way."""

    def __init__(self, way: Frozen) -> None:
        self.way = way

    def __reduce__(self) -> Any:
        return frozen, self.way


def _point(value: set[Any], finger: int) -> None:
    """Lets `pop` go on at a place: it goes on behind the one that it took last."""
    value.clear()
    if finger:
        size = 1 << (2 * finger + _SMALL).bit_length()
        numbers = range(finger - 1, finger + size // 4)
        value.update(dict.fromkeys(numbers))
        for each in numbers[1:]:
            value.discard(each)
        value.pop()


@functools.lru_cache(maxsize=None)
def _is_known() -> bool:
    """Do sets lie in memory as they have for many versions?"""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or struct.calcsize("P") != 8:
        return False
    probe = {1, 2, 3}
    probe.pop()
    filled, used, mask, place, _, finger = _HEAD.unpack(ctypes.string_at(id(probe) + object.__basicsize__, _HEAD.size))
    return (filled, used, mask, finger) == (3, 2, 7, 2) and id(probe) < place < id(probe) + sys.getsizeof(probe)


class _Coming:
    """An order in which each element comes after those that lie where it was to lie."""

    def __init__(self, table: Table, wanted: list[Any]) -> None:
        self.finger = table.finger
        self.table = table.places
        self.mask = len(self.table) - 1
        self.elements = {id(each): each for each in wanted}
        self.placed: set[int] = set()
        # What lies where its hash says comes first.
        self.home: list[Any] = []
        self.coming: list[Any] = []
        self.out: list[int] = []
        # Numbers that are no elements.
        self.least = 1 + max((abs(each) for each in wanted if isinstance(each, int)), default=0) // len(self.table)

    def ways(self, gone: bool = True) -> list[Recipe]:
        """What has been there and is gone counts as well, or only where something lies elsewhere because of it."""
        for place, (key, hashed) in enumerate(self.table):
            if key and (gone or hashed != _DUMMY) and place not in self.placed and not self.put(place):
                return []
        coming, size = [*self.home, *self.coming], len(self.table)
        few = min(len(self.home), size // 4 - 1)
        found = [(0, coming, self.out[:], self.finger), (-few, coming, self.out[:], self.finger)]
        if size > _SMALL:
            free = (place for place, (key, _) in enumerate(self.table) if not key)
            for place in itertools.islice(free, max(0, max(5, size // 4) - len(coming))):
                self.hold(place)
        return [*found, (size, [*self.home, *self.coming], self.out, self.finger)]

    def frozen_ways(self, gone: bool) -> list[Frozen]:
        ways, size = self.ways(gone), len(self.table)
        coming, out = ways[0][1:3] if ways else ([*self.elements.values()], [])
        more, most = (max(0, max(5, size // 4) - len(coming)), size // 2 - 1) if size > _SMALL else (0, 4)
        held = [*out, *(self.least * size + size + place for place in range(more))]
        if out:
            first = set(map(id, out))
            coming = [*out, *(each for each in coming if id(each) not in first)]
            return [(0, coming[:most], held, coming[most:])]
        alone: list[Frozen] = [(more, coming[:most], [], coming[most:]), (0, [], [], coming), (0, [], [], coming[::-1])]
        return [*alone, (0, coming, held, [])]

    def put(self, start: int) -> bool:
        waiting = [start]
        while waiting:
            place = waiting[-1]
            key, hashed = self.table[place]
            if hashed == _DUMMY:
                # Something has been there.
                if place not in self.placed:
                    self.hold(place)
            else:
                before = next((each for each in self.path(hashed, place) if each not in self.placed), None)
                if before in waiting or (before is not None and not self.table[before][0]):
                    return False
                if before is not None:
                    waiting.append(before)
                    continue
                if place not in self.placed:
                    (self.home if hashed & self.mask == place else self.coming).append(self.elements[key])
            self.placed.add(waiting.pop())
        return True

    def hold(self, place: int) -> None:
        """A number that lies at a place comes, and will be taken out."""
        number = self.least * len(self.table) + place
        self.home.append(number)
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


def depth(value: Any) -> int:
    """How many of them are in each other."""
    return 1 + max(map(depth, value), default=0) if type(value) in (frozenset, tuple) else 0
