"""What a region changed: objects are compared with what they held before, part by part and by identity.

Only what a region can reach is looked at, and only what differs is written. What has no parts that can be told apart is
*opaque*: then the whole heap is written anew.
"""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import types
import uuid
import zoneinfo
from operator import is_
from typing import Any, Callable, Iterable, Sequence

from ..decorators import Action, Workflow
from ..values.failures import native_values, put_native
from .sets import fill, recipe

Edit = tuple[Any, ...]

_ATOMS: set[type] = {
    int, float, str, bytes, bool, complex, type(None), type, range, slice, type(...), type(NotImplemented), object,
    types.ModuleType, types.WrapperDescriptorType, types.MethodDescriptorType,
    decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.datetime, datetime.timedelta,
    datetime.timezone, zoneinfo.ZoneInfo, uuid.UUID, re.Pattern, Action, Workflow,
}  # fmt: skip
_ATOM, _TUPLE, _LIST, _DICT, _SET, _DEQUE, _OBJECT, _ERROR, _METHOD, _CALL, _MODEL, _FUNCTION, _CELL, _HOME, _OPAQUE = range(15)


class Opaque(Exception):
    """Something whose changes cannot be seen."""


class Home:
    """Where a function inside a function was defined: the frame of the one around it, which lives as long as the function, and
    the name under which the law knows the function."""

    __slots__ = ("frame", "key")

    def __init__(self, frame: dict[str, Any], key: str) -> None:
        self.frame = frame
        self.key = key


def _kind(cls: type) -> int:
    found = _KINDS.get(cls)
    if found is None:
        found = _KINDS[cls] = _new_kind(cls)
    return found


_KINDS: dict[type, int] = {**dict.fromkeys(_ATOMS, _ATOM), Home: _HOME}


def _new_kind(cls: type) -> int:
    from .awaiting import Pending

    if issubclass(cls, (enum.Enum, type, pathlib.PurePath)):
        return _ATOM
    if cls is types.FunctionType:
        return _FUNCTION
    if cls is types.CellType:
        return _CELL
    if cls is types.CoroutineType or cls is Pending:
        return _CALL
    if cls in (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType):
        return _METHOD
    if issubclass(cls, BaseException):
        return _ERROR
    if hasattr(cls, "__pydantic_fields_set__"):
        return _MODEL
    if issubclass(cls, (tuple, frozenset)):
        return _TUPLE if cls.__dictoffset__ == 0 else _OPAQUE
    if cls.__reduce__ is object.__reduce__ and cls.__reduce_ex__ is object.__reduce_ex__:
        if not _is_default(cls):
            return _OPAQUE
        if issubclass(cls, list):
            return _LIST
        if issubclass(cls, dict):
            return _DICT
        size = object.__basicsize__ + 32 + 8 * len(_slots(cls))
        return _OBJECT if (cls.__dictoffset__ or _slots(cls)) and cls.__basicsize__ <= size else _OPAQUE
    if cls in (collections.defaultdict, collections.OrderedDict, collections.Counter):
        return _DICT
    if cls is set:
        return _SET
    return _DEQUE if cls is collections.deque else _OPAQUE


def _is_default(cls: type) -> bool:
    """Is its state what its attributes are?"""
    getstate = getattr(cls, "__getstate__", None)
    if getattr(getstate, "__module__", None) == "dataclasses":
        return True
    return getstate is getattr(object, "__getstate__", None) and not hasattr(cls, "__setstate__")


def _inside(value: Any) -> dict[str, Any]:
    """The attributes of an object."""
    slots = _slots(type(value))
    found: dict[str, Any] = getattr(value, "__dict__", _NO_ATTRIBUTES)
    if not slots:
        return found
    return {**found, **{each: getattr(value, each) for each in slots if hasattr(value, each)}}


_NO_ATTRIBUTES: dict[str, Any] = {}


def _slots(cls: type) -> Sequence[str]:
    found: Sequence[str] = copyreg._slotnames(cls)  # type: ignore[attr-defined]
    return found


def is_constant(value: Any) -> bool:
    return _kind(type(value)) == _ATOM


def is_changeable(value: Any) -> bool:
    """Is it something that is told from others by its identity, and no constant?"""
    return _kind(type(value)) not in (_ATOM, _TUPLE, _FUNCTION, _METHOD, _CELL, _HOME)


def parts_of(value: Any) -> Iterable[tuple[tuple[str, Any], Any]]:
    """What is in a list, a dict, a set or an object, and how it is found there."""
    kind = _kind(type(value))
    if kind in (_LIST, _DEQUE) or kind == _TUPLE and isinstance(value, tuple):
        return ((("i", at), each) for at, each in enumerate(list(value)))
    if kind == _DICT:
        return ((("i", key), each) for key, each in list(_base(value).items(value)))
    if kind == _SET:
        return ((("", at), each) for at, each in enumerate(list(value)))
    return ((("a", name), each) for name, each in list(_inside(value).items())) if kind in (_OBJECT, _MODEL) else ()


class Tracker:
    """What the objects of a heap held when they were last written."""

    def __init__(self) -> None:
        # By id: the object, which is thereby kept, what it held, and whether its parts have no parts of their own.
        self.held: dict[int, list[Any]] = {}
        self.edits: list[Edit] = []
        # Objects that were not known, since somebody asked last.
        self.fresh: list[Any] = []
        # By id: objects that a module has, which are never written.
        self.named: dict[int, Any] = {}
        # Are new sets to be written? Not those that were already.
        self.orders = False
        self._seen: set[int] = set()
        # The ids of the `__dict__`s of objects, which these keep.
        self.insides: set[int] = set()

    def look(self, roots: Iterable[Any]) -> None:
        """Notes what has become of what can be reached from here; objects that are not known are known from now on."""
        self._seen.clear()
        waiting = [*roots]
        while waiting:
            value = waiting.pop()
            kind = _kind(type(value))
            if kind == _ATOM or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            if id(value) in self.named:
                continue
            if kind == _OPAQUE:
                raise Opaque(type(value).__name__)
            known = self.held.get(id(value))
            if known is None:
                known = self.held[id(value)] = [value, None, False]
                self.fresh.append(value)
                _LOOKS[kind](self, value, known, waiting, True)
            else:
                _LOOKS[kind](self, value, known, waiting, False)

    def look_at_frame(self, frame: dict[str, Any]) -> list[Any]:
        """Notes which variables have other values; those values."""
        known = self.held.get(id(frame))
        if known is None or _same(known[1], frame):
            return []
        changed = [each for name, each in frame.items() if known[1].get(name, _NOTHING) is not each]
        changed += [each for name, each in known[1].items() if frame.get(name, _NOTHING) is not each]
        self._dict_changed(frame, known[1])
        known[1], known[2] = dict(frame), False
        return changed

    def note(self, *edit: Any) -> None:
        self.edits.append(edit)

    def _tuple(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        if fresh:
            known[2] = _plain(value)
        if not known[2]:
            waiting.extend(value)

    def _list(self, value: list[Any], known: list[Any], waiting: list[Any], fresh: bool) -> None:
        before = known[1]
        if fresh:
            known[1], known[2] = list.copy(value), _plain(value)
        elif not (same := all(map(is_, before, value))) or len(before) != len(value):
            both = min(len(before), len(value))
            front = both if same else _common(before, value)
            rest = both - front
            end = _common(before[len(before) - rest :][::-1], value[len(value) - rest :][::-1]) if rest else 0
            new = list.__getitem__(value, slice(front, len(value) - end))
            self.note("l", value, front, new, end)
            if not known[2]:
                # Whatever was taken out may have been changed before.
                waiting.extend(before[front : len(before) - end])
            before[front : len(before) - end] = new
            known[2] = known[2] and _plain(new)
        if not known[2]:
            waiting.extend(list.__iter__(value))
        self._attributes(value, known, waiting, fresh)

    def _dict(self, value: dict[Any, Any], known: list[Any], waiting: list[Any], fresh: bool) -> None:
        before = known[1]
        if id(value) in self.insides:
            raise Opaque("a __dict__ that something else holds")
        if fresh:
            known[1] = before = dict(_base(value).items(value))
            known[2] = _plain(before) and _plain(before.values())
        elif not _same(before, value):
            self._dict_changed(value, before)
            waiting.extend(before)
            waiting.extend(before.values())
            known[1] = now = dict(_base(value).items(value))
            known[2] = _plain(now) and _plain(now.values())
        if not known[2]:
            waiting.extend(known[1])
            waiting.extend(known[1].values())
        if type(value) is not dict:
            self._attributes(value, known, waiting, fresh)
            if isinstance(value, collections.defaultdict):
                waiting.append(value.default_factory)

    def _dict_changed(self, value: dict[Any, Any], before: dict[Any, Any]) -> None:
        now = dict(_base(value).items(value))
        gone = [key for key in before if key not in now]
        new = [(key, each) for key, each in now.items() if before.get(key, _NOTHING) is not each]
        if _keeps_order(before, now, new):
            self.note("d", value, gone, new)
        else:
            self.note("D", value, list(now.items()))

    def _set(self, value: set[Any], known: list[Any], waiting: list[Any], fresh: bool) -> None:
        before = known[1]
        if fresh or len(before) != len(value) or not all(map(is_, before, value)):
            waiting.extend(before or ())
            known[1], known[2] = list(value), _plain(value)
            if not fresh:
                self.note("s", value, known[1][:])
            if self.orders:
                self.order(value)
        if not known[2]:
            waiting.extend(value)

    def order(self, value: set[Any]) -> None:
        """A set that would have another order is filled again in another way."""
        found = recipe(value)
        if found is not None:
            self.note("o", value, *found)

    def _deque(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        if fresh or len(known[1]) != len(value) or not all(map(is_, known[1], value)):
            waiting.extend(known[1] or ())
            known[1], known[2] = list(value), _plain(value)
            if not fresh:
                self.note("q", value, known[1][:])
        if not known[2]:
            waiting.extend(value)

    def _object(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        known[2] = True
        self._attributes(value, known, waiting, fresh)

    def _attributes(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        inside = _inside(value)
        self._own_dict(inside)
        if fresh:
            known.append(dict(inside))
        elif not _same(known[3], inside):
            gone = [key for key in known[3] if key not in inside]
            new = [(key, each) for key, each in inside.items() if known[3].get(key, _NOTHING) is not each]
            if not _keeps_order(known[3], inside, new):
                # Those that stand behind one that moved come again, too.
                gone, new = list(known[3]), list(inside.items())
            self.note("a", value, gone, new)
            waiting.extend(known[3].values())
            known[3] = dict(inside)
        waiting.extend(inside.values())

    def _own_dict(self, inside: dict[str, Any]) -> None:
        """A `__dict__` that is held as itself, too, is no part like others: everything is written anew."""
        self.insides.add(id(inside))
        if id(inside) in self.held:
            raise Opaque("a __dict__ that something else holds")

    def _error(self, value: BaseException, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        now = [value.args, value.__cause__, value.__context__, value.__suppress_context__, *native_values(value)]
        if not fresh and not all(map(is_, known[1], now)):
            self.note("x", value, now)
            waiting.extend(known[1])
        known[1] = now
        waiting.extend(now)
        self._attributes(value, known, waiting, fresh)

    def _method(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        waiting.append(value.__self__)

    def _call(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        from .awaiting import Pending, pending

        call = value if isinstance(value, Pending) else pending(value)
        if call is None:
            raise Opaque("coroutine")
        if not fresh and known[1] != call.used:
            self.note("u", value)
        known[1] = call.used
        waiting.extend(call.given.values())

    def _model(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        """A pydantic model: its parts are objects of their own, which are tracked as such."""
        names = _slots(type(value))
        now = [value.__dict__, *(getattr(value, each, None) for each in names if each != "__dict__")]
        if not fresh and not all(map(is_, known[1], now)):
            raise Opaque("a model with other parts")
        known[1] = now
        waiting.extend(now)


    def _function(self, value: Any, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        """What a function keeps: the cells and the defaults of one that is found under no name."""
        if "<" in value.__qualname__:
            now = [value.__name__, value.__qualname__, value.__doc__, value.__module__, value.__defaults__, value.__kwdefaults__]
            if not fresh and not all(map(is_, known[1], now)):
                raise Opaque("a function with other parts")
            known[1] = now
            waiting.extend(value.__closure__ or ())
            waiting.extend(value.__defaults__ or ())
            waiting.extend((value.__kwdefaults__ or {}).values())
            self._attributes(value, known, waiting, fresh)

    def _cell(self, value: types.CellType, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        try:
            now: tuple[Any, ...] = (value.cell_contents,)
        except ValueError:
            now = ()
        if not fresh and (len(known[1]) != len(now) or (now and known[1][0] is not now[0])):
            self.note("c", value, now)
            waiting.extend(known[1])
        known[1] = now
        waiting.extend(now)

    def _home(self, value: Home, known: list[Any], waiting: list[Any], fresh: bool) -> None:
        """Whoever gives other values to the variables of a frame touches it."""
        if fresh:
            waiting.append(value.frame)


_NOTHING = object()
_LOOKS: dict[int, Callable[[Tracker, Any, list[Any], list[Any], bool], None]] = {
    _TUPLE: Tracker._tuple, _LIST: Tracker._list, _DICT: Tracker._dict, _SET: Tracker._set, _DEQUE: Tracker._deque,
    _OBJECT: Tracker._object, _ERROR: Tracker._error, _METHOD: Tracker._method, _CALL: Tracker._call, _MODEL: Tracker._model,
    _FUNCTION: Tracker._function, _CELL: Tracker._cell, _HOME: Tracker._home,
}  # fmt: skip


def _plain(values: Iterable[Any]) -> bool:
    """Has none of them parts?"""
    return all(_kind(each) == _ATOM for each in set(map(type, values)))


def _same(before: dict[Any, Any], now: dict[Any, Any]) -> bool:
    return (
        len(before) == len(now)
        and all(map(is_, before, _base(now).keys(now)))
        and all(map(is_, before.values(), _base(now).values(now)))
    )


def _keeps_order(before: dict[Any, Any], now: dict[Any, Any], new: Sequence[tuple[Any, Any]]) -> bool:
    """Would it have the same order with only the differences made?"""
    left = [key for key in before if key in now]
    return list(map(id, [*left, *(key for key, _ in new if key not in before)])) == list(map(id, now))


def _base(value: dict[Any, Any]) -> Any:
    """Whose methods do what a dict does, whatever its class makes of them."""
    return collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many both begin with."""
    for at, (left, right) in enumerate(zip(one, other)):
        if left is not right:
            return at
    return min(len(one), len(other))


def put_attributes(value: Any, gone: Iterable[str], new: Iterable[tuple[str, Any]]) -> None:
    """Attributes as they are, whatever descriptors and methods of the class make of an assignment."""
    slots = _slots(type(value))
    for key in gone:
        if key in slots:
            object.__delattr__(value, key)
        else:
            del object.__getattribute__(value, "__dict__")[key]
    for key, each in new:
        if key in slots:
            object.__setattr__(value, key, each)
        else:
            object.__getattribute__(value, "__dict__")[key] = each


def apply(edit: Edit) -> None:
    """Does to an object what was done to it."""
    word, value, *rest = edit
    if word == "l":
        front, new, end = rest
        list.__setitem__(value, slice(front, list.__len__(value) - end), new)
    elif word == "d":
        for key in rest[0]:
            _base(value).__delitem__(value, key)
        for key, each in rest[1]:
            _base(value).__setitem__(value, key, each)
    elif word == "a":
        put_attributes(value, *rest)
    elif word == "D":
        _base(value).clear(value)
        for key, each in rest[0]:
            _base(value).__setitem__(value, key, each)
    elif word == "s":
        value.clear()
        value.update(rest[0])
    elif word == "o":
        fill(value, *rest)
    elif word == "q":
        value.clear()
        value.extend(rest[0])
    elif word == "x":
        value.args, value.__cause__, value.__context__, value.__suppress_context__ = rest[0][:4]
        put_native(value, rest[0][4:])
    elif word == "u":
        value.used = True
    elif word == "c":
        if rest[0]:
            value.cell_contents = rest[0][0]
        else:
            del value.cell_contents
    else:
        raise ValueError(f"the heap was written by a later version: '{word}'")
