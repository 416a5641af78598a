"""The heap of a run: the variables of its open functions as one graph of objects, so that what is one object stays one.

It is kept as a log of pickles that share a memo: the first has everything, those after it what regions have changed. A
worker that has just run a region still has the objects; others read the log. Classes and functions go by name and are the
worker's. What cannot be kept across an await (an open file, a lock, a generator) is left out, and named when it is used
again.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import importlib
import io
import itertools
import marshal
import math
import pickle
import re
import secrets
import sys
import types
from collections import OrderedDict
from contextvars import ContextVar
from typing import Any, Callable, Iterable, Optional, Sequence, cast

from ..values.failures import decode_failure, encode_failure, native_fields, remade
from ..values.names import class_name, find_class, find_module, module_name
from .named import KNOWN, Named, found_part
from .sets import Refrozen, depth, frozen_recipe, recipe
from .shapes import shape, validation
from .tracking import Home, Opaque, Tracker, apply

# Heaps that a worker keeps for the next region of their runs.
KEPT_MAX = 256
# A log is written anew when it has grown by so many bytes and to more than twice its size.
_GROWTH = 64 * 1024
_TABLES = ("frames", "failures", "kept", "tasks")

# The region that is being run, and the names that the code of its module sees.
running: ContextVar[Any] = ContextVar("lope_region")
scopes: ContextVar[dict[str, dict[str, Any]]] = ContextVar("lope_scopes")


class Current:
    """What the code of regions knows as `_lope`: the region that is being run, also for functions of earlier ones."""

    def __getattr__(self, name: str) -> Any:
        return getattr(running.get(), name)

    def __reduce__(self) -> str:
        return "CURRENT"


CURRENT = Current()


class Forgotten(Exception):
    """This worker does not have the heap any more, and was not given its log."""


class Unkept:
    """Stands for a value that could not be kept across an await."""

    def __init__(self, kind: str, line: int, reason: str) -> None:
        self.kind = kind
        self.line = line
        self.reason = reason


class Heap:
    """Frames by number, exceptions that were raised and not yet handled, what waits for an answer, and tasks."""

    def __init__(self) -> None:
        self.last = 0
        self.started = 0
        self.frames: dict[int, dict[str, Any]] = {}
        self.failures: dict[int, BaseException] = {}
        self.kept: dict[int, Any] = {}
        self.tasks: dict[int, Any] = {}
        self._out: io.BytesIO
        self._pickler: Any = None
        self._tracker: Optional[Tracker] = None
        # What was put into the tables or taken out of them.
        self._changes: list[tuple[Any, ...]] = []
        self._touched: list[Any] = []
        self._touched_frames: list[dict[str, Any]] = []
        self._size = self._base = 0
        # The whole, if it was written last.
        self._whole = b""
        # Variables that cannot be kept across an await, as they are until the next one.
        self._fragile: list[tuple[dict[str, Any], str, Any, Unkept]] = []
        # Numbers that are no numbers are told from each other by identity alone; kept from the first one on.
        self._nans: Optional[list[float]] = None
        # What belongs to a module.
        self._named: dict[int, Any] = {}

    # Tables.

    def number(self) -> int:
        self.last += 1
        return self.last

    def put(self, table: str, value: Any, number: int = 0) -> int:
        number = number or self.number()
        getattr(self, table)[number] = value
        self._changes.append((table, number, value))
        self._touched.append(value)
        return number

    def take(self, table: str, number: int) -> Any:
        found = getattr(self, table).pop(number)
        self._changes.append((table, number))
        self._touched.append(found)
        return found

    def frame(self, variables: dict[str, Any]) -> int:
        return self.put("frames", variables)

    def touch(self, *values: Any) -> None:
        """A region can reach these, and all in them."""
        self._touched += values

    def touch_frame(self, frame: Optional[dict[str, Any]]) -> None:
        """A region may give other values to the variables in it."""
        if frame is not None:
            self._touched_frames.append(frame)

    # Writing.

    def write(self, line: int) -> list[Any]:
        """What has changed since it was written last, as the law keeps it; variables that cannot be kept are left out."""
        adds = self._pickler is not None
        try:
            added = self._added() if adds else None
        except Opaque:
            added = None
        except Exception:
            # Something that cannot be kept; the memo is of no more use.
            added = None
        if added is not None and self._nans is None and _has_nan(added):
            self._nans, added = [math.nan], None
        if added is None or self._size > 2 * self._base + _GROWTH:
            adds, added = False, self._anew(line)
            if added == self._whole:
                adds, added = True, b""
            else:
                self._whole = added
        self._changes, self._touched, self._touched_frames = [], [], []
        return [self._remember(), adds, added]

    def _added(self) -> bytes:
        tracker = cast(Tracker, self._tracker)
        tracker.edits = []
        changed = [each for frame in self._touched_frames for each in tracker.look_at_frame(frame)]
        tracker.named, tracker.fresh, tracker.orders = self._named, [], True
        tracker.look([*self._touched, *changed])
        self._name([each for each in tracker.fresh if id(each) in KNOWN.ways])
        self._freeze([each for each in tracker.fresh if type(each) is frozenset])
        if tracker.edits or self._changes:
            self._pickler.dump((self._changes, tracker.edits, self.last, self.started))
        else:
            self._pickler.dump((self.last, self.started))
        return self._written()

    def _name(self, values: Sequence[Any]) -> None:
        """What belongs to a module is written by its name, once."""
        if not values:
            return
        found = [(each, way) for each in values if id(each) not in self._named and (way := KNOWN.way_to(each)) is not None]
        if not found:
            return
        self._stand_in([(each, Named(way)) for each, way in found], list)
        self._named.update((id(each), each) for each, _ in found)

    def _freeze(self, values: Sequence[Any]) -> None:
        """A frozenset that would have another order is made in another way, before whatever holds it."""
        for each in () if not values else sorted(values, key=depth):
            found = frozen_recipe(each)
            if found is not None:
                self._stand_in([(each, Refrozen(found))], tuple)

    def _stand_in(self, pairs: list[tuple[Any, Any]], kind: Any) -> None:
        """Writes objects by what stands for them; readers tell by the kind of the whole what they are."""
        self._pickler.dump(kind(stands for _, stands in pairs))
        memo = self._pickler.memo.copy()
        for each, stands in pairs:
            # Places are counted: each has one entry. One that leads to itself has been written as it came.
            if id(each) not in memo:
                memo[id(each)] = memo.pop(id(stands))[0], each
        self._pickler.memo = memo

    def _written(self) -> bytes:
        found = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        self._size += len(found)
        return found

    def _anew(self, line: int) -> bytes:
        self._fragile = []
        try:
            self._dump_whole()
        except Exception:
            self._pickler = None
            self._leave_out(line)
            self._dump_whole()
            for variables, name, value, _ in self._fragile:
                variables[name] = value
        self._size = 0
        added = self._written()
        self._base = self._size
        self._tracker = None
        return added

    def _dump_whole(self) -> None:
        names = [*self._named.values()]
        self._dump_all(names)
        written = self._out.getvalue()
        nans = self._nans is None and _has_nan(written)
        sets = pickle.EMPTY_SET in written or pickle.FROZENSET in written
        if not (KNOWN.ways or nans or sets):
            return
        met = [each for _, each in self._pickler.memo.copy().values()]
        more = [each for each in met if id(each) in KNOWN.ways and id(each) not in self._named and KNOWN.way_to(each) is not None]
        frozen = [each for each in met if type(each) is frozenset and frozen_recipe(each) is not None] if sets else []
        if more or nans or frozen:
            self._nans = [math.nan] if nans else self._nans
            self._dump_all([*names, *more], frozen)
            met = [each for _, each in self._pickler.memo.copy().values()]
        found = [(each, recipe(each)) for each in met if type(each) is set] if sets else []
        orders = [("o", each, *way) for each, way in found if way is not None]
        if orders:
            self._pickler.dump(([], orders, self.last, self.started))

    def _dump_all(self, names: Sequence[Any], frozen: Sequence[Any] = ()) -> None:
        self._out, self._named = io.BytesIO(), {}
        self._pickler = self._new_pickler()
        self._name(names)
        self._freeze(frozen)
        self._pickler.dump((self.frames, self.failures, self.kept, self.tasks, self.last, self.started))

    def _new_pickler(self) -> Any:
        return _Pickler(self._out, protocol=5) if self._nans is None else _NanPickler(self._out, self._nans)

    def _leave_out(self, line: int) -> None:
        waiting, seen = [*self.frames.values()], set()
        while waiting:
            variables = waiting.pop()
            if id(variables) in seen:
                continue
            seen.add(id(variables))
            for name, value in variables.items():
                try:
                    _OneFrame(waiting).dump(value)
                except Exception as error:
                    held = (*content(value), None)[0] if isinstance(value, types.CellType) else value
                    unkept = Unkept(type(held).__name__, line, str(error))
                    self._fragile.append((variables, name, value, unkept))
                    variables[name] = unkept

    def awaited(self, frame: dict[str, Any]) -> None:
        """The code of a frame has awaited something: what cannot be kept across that is gone."""
        for variables, name, value, unkept in self._fragile:
            if variables is frame and variables.get(name) is value:
                variables[name] = unkept

    # Remembering and reading.

    def _remember(self) -> str:
        version = f"{_PROCESS}{next(_versions):x}"
        _KEPT[version] = self
        while len(_KEPT) > KEPT_MAX:
            _KEPT.popitem(last=False)
        return version

    def read(self, log: bytes) -> None:
        source = io.BytesIO(log)
        reader = _Reader(source)
        while source.tell() < len(log):
            found = reader.load()
            if isinstance(found, list):
                self._named.update((id(each), each) for each in found)
            elif len(found) == len(_TABLES) + 2:
                self.frames, self.failures, self.kept, self.tasks, self.last, self.started = found
                self._base = source.tell()
            elif len(found) == 2:
                self.last, self.started = found
            elif len(found) > 1:
                self._read_change(*found)
            # One alone is a frozenset that later ones hold.
        self._size = len(log)
        self._nans = reader.nans if len(reader.nans) > 1 else None
        self._out = io.BytesIO()
        self._pickler = self._new_pickler()
        self._pickler.memo = _memo(reader.memo.copy())

    def _read_change(self, changes: Any, edits: Any, last: int, started: int) -> None:
        self.last, self.started = last, started
        for change in changes:
            table = getattr(self, change[0])
            if len(change) == 3:
                table[change[1]] = change[2]
            else:
                table.pop(change[1])
        for edit in edits:
            apply(edit)

    @property
    def named(self) -> list[Any]:
        """What variables hold that belongs to a module."""
        return [*self._named.values()]

    def begin(self) -> None:
        """Before a region changes it: what it holds is noted, unless that is known."""
        if self._tracker is not None or self._pickler is None:
            return
        self._tracker = Tracker()
        self._tracker.named = self._named
        try:
            self._tracker.look([getattr(self, each) for each in _TABLES])
            self._whole = b""
        except Opaque:
            # Nobody sees what becomes of it: the region writes everything again.
            self._pickler = None


_KEPT: OrderedDict[str, Heap] = OrderedDict()
# Versions are never given twice, by no process.
_PROCESS = secrets.token_hex(8)
_versions = itertools.count()


def load(given: Optional[dict[str, Any]]) -> Heap:
    """The heap that the law speaks of."""
    if not given:
        return Heap()
    # A region changes it: what is left behind has another version.
    heap = _KEPT.pop(given["version"], None)
    if heap is None:
        if "pages" not in given:
            raise Forgotten()
        heap = Heap()
        heap.read(b"".join(given["pages"]))
    heap.begin()
    return heap


def _memo(read: dict[int, Any]) -> dict[int, tuple[int, Any]]:
    """What a pickler knows that has written what was read; places that lead to one object are filled up."""
    found: dict[int, tuple[int, Any]] = {}
    for place, value in read.items():
        if id(value) in found:
            value = [place]
        found[id(value)] = (place, value)
    return found


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        # In Python 3.10 `list[int]` says that it is a class.
        if issubclass(type(value), type):
            return _class(value)
        if id(value) in KNOWN.ways and (way := KNOWN.way_to(value)) is not None:
            return found_part, way
        reduce = _REDUCERS.get(type(value))
        if reduce is not None:
            return reduce(value)
        if isinstance(value, BaseException):
            return _exception(value)
        if type(value) is object:
            return _sentinel(value)
        found = shape(value)
        if found is not None:
            return found
        return _made_anew(value) if _has_own_new(cast(Any, type(value))) else NotImplemented


class _NanPickler(_Pickler):
    """Numbers that are no numbers, each with its place among those that the heap has met."""

    def __init__(self, out: io.BytesIO, nans: list[float]) -> None:
        super().__init__(out, protocol=5)
        self.nans = nans
        self.places = {id(each): place for place, each in enumerate(nans)}

    def persistent_id(self, value: Any) -> Optional[int]:
        if type(value) is not float or value == value:
            return None
        found = self.places.setdefault(id(value), len(self.nans))
        if found == len(self.nans):
            self.nans.append(value)
        return found


class _Reader(pickle.Unpickler):
    def __init__(self, source: io.BytesIO) -> None:
        super().__init__(source)
        self.nans: list[float] = [math.nan]

    def persistent_load(self, place: int) -> float:
        while len(self.nans) <= place:
            self.nans.append(float("nan"))
        return self.nans[place]


def _has_nan(written: bytes) -> bool:
    return b"G\x7f\xf8\0\0\0\0\0\0" in written or b"G\xff\xf8\0\0\0\0\0\0" in written


class _OneFrame(_Pickler):
    """Tells whether a variable can be kept, apart from the frames of functions in it, which it lists."""

    def __init__(self, frames: list[dict[str, Any]]) -> None:
        super().__init__(io.BytesIO(), protocol=5)
        self.frames = frames

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Home):
            self.frames.append(value.frame)
            return Home, ({}, value.key)
        return super().reducer_override(value)


# Classes that pickle knows by other names than their own.
_NAMELESS = (type(None), type(...), type(NotImplemented))


def _class(value: type) -> Any:
    if _is_plain(value) or value in _NAMELESS:
        return NotImplemented
    name = class_name(value)
    if find_class(name) is not value:
        raise pickle.PicklingError(f"the class {value.__qualname__} is not found by its name")
    return found_class, (name,)


def _sentinel(value: object) -> Any:
    """An object that stands for something by being itself: it is kept if it has a name in a module of the region's."""
    for name in scopes.get({}):
        module = find_module(name)
        found = next((known for known, each in vars(module).items() if each is value), None)
        if found is not None:
            return found_function, (name, found)
    raise pickle.PicklingError("an object() that no module has under a name")


@functools.lru_cache(maxsize=4096)
def _has_own_new(cls: Any) -> bool:
    """Does its `__new__` want what only whoever made an object knew?"""
    default = cls.__reduce_ex__ is object.__reduce_ex__ and cls.__reduce__ is object.__reduce__
    asks = any(isinstance(getattr(cls, each, None), types.FunctionType) for each in ("__getnewargs__", "__getnewargs_ex__"))
    return default and not asks and isinstance(cls.__new__, types.FunctionType) and not issubclass(cls, (tuple, enum.Enum))


def _made_anew(value: Any) -> Any:
    found = value.__reduce_ex__(4)
    if found[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
        return NotImplemented
    return new_object, *found[1:]


def new_object(cls: type, *args: Any) -> Any:
    """An object without a call of its class's own `__new__`: what that did is in its state."""
    base: Any = next(each for each in cls.__mro__ if not isinstance(each.__dict__.get("__new__"), staticmethod))
    return base.__new__(cls, *args)


def _is_plain(value: Any) -> bool:
    """Is it found under its own name by anybody? Not what a program that was started defines."""
    if value.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def found_class(name: str) -> type:
    found = find_class(name)
    if found is None:
        raise LookupError(f"the class '{name}' cannot be found here")
    return found


def _function(value: types.FunctionType) -> Any:
    if _is_plain(value):
        return NotImplemented
    module, name = module_name(value), value.__qualname__
    try:
        found = found_function(module, name)
    except (ImportError, AttributeError):
        found = None
    if found is value:
        return found_function, (module, name)
    written = sys.version_info[:2], marshal.dumps(value.__code__)
    state = (*(getattr(value, each) for each in _PARTS), value.__dict__)
    return new_function, (module, value.__name__, written, value.__closure__), state, None, None, restore_function


def new_function(module: str, name: str, written: tuple[tuple[int, int], bytes], closure: Optional[tuple[Any, ...]]) -> Any:
    """A function that is found under no name: its code goes with it, for the same version of Python."""
    if written[0] != sys.version_info[:2]:
        had = ".".join(map(str, written[0]))
        raise TypeError(f"the function '{name}' was kept by Python {had}; go on with that one")
    known = scopes.get({}).get(module)
    return types.FunctionType(marshal.loads(written[1]), known or vars(find_module(module)), name, None, closure)


def restore_function(function: Any, state: Any) -> None:
    for name, each in zip(_PARTS, state):
        setattr(function, name, each)
    vars(function).update(state[-1])


_PARTS = ("__qualname__", "__defaults__", "__kwdefaults__", "__annotations__", "__doc__", "__module__")


def _cell(value: types.CellType) -> Any:
    return new_cell, (), content(value), None, None, restore_cell


def new_cell() -> types.CellType:
    return types.CellType()


def content(cell: types.CellType) -> tuple[Any, ...]:
    """What is in a cell, if something is."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def restore_cell(cell: types.CellType, found: tuple[Any, ...]) -> None:
    if found:
        cell.cell_contents = found[0]


def found_function(module: str, name: str) -> Any:
    found: Any = find_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _module(value: types.ModuleType) -> Any:
    return importlib.import_module, (value.__name__,)


def _exception(error: BaseException) -> Any:
    found = validation(error)
    if found is not None:
        return found
    state = (dict(vars(error)), error.__cause__, error.__context__, error.__suppress_context__)
    made = new_exception, (type(error), error.args, native_fields(error))
    try:
        _class(type(error))
        made[0](*made[1])
    except Exception:
        # One that only its own class can make: it stays what it is to handlers, and its text.
        return decode_failure, (encode_failure(error),)
    return *made, state, None, None, restore_exception


def new_exception(kind: type[BaseException], args: tuple[Any, ...], native: dict[str, Any]) -> BaseException:
    return remade(kind, args, native)


def restore_exception(error: BaseException, state: Any) -> None:
    vars(error).update(state[0])
    error.__cause__, error.__context__, error.__suppress_context__ = state[1:]


def _coroutine(value: Any) -> Any:
    from .awaiting import Pending, pending

    found = pending(value)
    if found is None:
        raise pickle.PicklingError("a coroutine that is no call of an action, a workflow or a function of the workflow")
    return Pending, (found.kind, found.name, found.given, found.used)


def _pattern(value: "re.Pattern[Any]") -> Any:
    """A reader asks `re.compile` as whoever has it did, so that it is the one that `re.compile` keeps."""
    kept = (key for each in ("_cache2", "_cache") for key, found in list(getattr(re, each, {}).items()) if found is value)
    asked = next(kept, (None, None, value.flags if isinstance(value.pattern, bytes) else value.flags & ~re.UNICODE))
    return re.compile, (value.pattern, int(asked[2]))


_REDUCERS: dict[type, Callable[[Any], Any]] = {
    re.Pattern: _pattern,
    types.FunctionType: _function,
    types.CellType: _cell,
    types.ModuleType: _module,
    types.CoroutineType: _coroutine,
}
