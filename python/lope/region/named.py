"""What belongs to a module: lists, dicts and objects that code of the user's module made when it was loaded.

A variable that holds one holds that of the worker, wherever the run goes on; so it is written by its name. Nobody can
change one: each worker has its own, and would have another one then.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import types
from collections import deque
from typing import Any, Iterable, Iterator, Optional, Sequence

from ..decorators import Action, Workflow
from ..values.names import find_module
from .tracking import is_changeable, is_constant, parts_of

# A step on the way from a module to what it has: an attribute, or an item.
Step = tuple[str, Any]
Way = tuple[str, tuple[Step, ...]]
# So many objects of a module are known by their names.
PARTS_MAX = 20_000
# Of larger ones it is seen by their size alone whether they change.
WATCHED_MAX = 1_000
_INSTALLED = tuple({sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib")})
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Named:
    """Stands for what a module has where a reader is to find that."""

    def __init__(self, way: Way) -> None:
        self.way = way

    def __reduce__(self) -> Any:
        return found_part, self.way


def found_part(module: str, steps: tuple[Step, ...]) -> Any:
    found: Any = find_module(module)
    try:
        for word, key in steps:
            found = getattr(found, key) if word == "a" else found[key]
    except (AttributeError, LookupError, TypeError):
        raise LookupError(f"the run holds '{_said(steps)}' of the module '{module}', which is not there any more") from None
    return found


def title(value: Any) -> str:
    """What belongs to a module, as code says it."""
    _, steps = KNOWN.way_to(value) or ("", (("a", type(value).__name__),))
    return _said(steps)


def _said(steps: tuple[Step, ...]) -> str:
    return "".join(f".{key}" if word == "a" else f"[{key!r}]" for word, key in steps)[1:]


class Known:
    """The objects of the modules that regions of this worker are from, by id. An id may be another object's by now."""

    def __init__(self) -> None:
        self.ways: dict[int, Way] = {}
        # Lists, dicts and sets that classes have, by the names of the attributes.
        self.attributes: dict[str, list[Any]] = {}
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        # What the names in the code of a region lead to.
        self._named: dict[tuple[str, frozenset[str]], list[Any]] = {}

    def learn(self, name: str, module: Any) -> None:
        """Each module once, and again when it has got more names."""
        size = len(vars(module))
        if self._sizes.get(name) == size:
            return
        with self._lock:
            for where, each in ((name, module), *_neighbours(module)):
                for value, steps in _walk(each):
                    if self.way_to(value) is None:
                        self.ways[id(value)] = where, steps
                        if _is_attribute(each, steps):
                            self.attributes.setdefault(steps[-1][1], []).append(value)
            self._named.clear()
            self._sizes[name] = size

    def named_by(self, module: Any, names: frozenset[str]) -> list[Any]:
        """The lists, dicts and sets that code with these names can reach by them."""
        key = (module.__name__, names)
        found = self._named.get(key)
        if found is None:
            outside = vars(module)
            named = [outside[name] for name in names if id(outside.get(name)) in self.ways]
            named += [each for name in names.intersection(self.attributes) for each in self.attributes[name]]
            found = self._named[key] = [each for each in named if is_container(each)]
        return [each for each in found if self.way_to(each) is not None] if found else found

    def way_to(self, value: Any) -> Optional[Way]:
        way = self.ways.get(id(value))
        if way is None:
            return None
        try:
            return way if found_part(*way) is value else None
        except (LookupError, ImportError):
            return None


KNOWN = Known()


def _is_attribute(module: Any, steps: tuple[Step, ...]) -> bool:
    """Is it the way from a class to what it has?"""
    held = found_part(module.__name__, steps[:-1]) if len(steps) > 1 and steps[-1][0] == "a" else None
    return isinstance(held, type)


def _neighbours(module: Any) -> Iterator[tuple[str, Any]]:
    """The modules of the user's that a module names."""
    found = [each for each in list(vars(module).values()) if issubclass(type(each), types.ModuleType) and _is_own(each)]
    named = [(str(each.__name__), each) for each in found]
    return (pair for pair in named if sys.modules.get(pair[0]) is pair[1])


def _is_own(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and not str(file).startswith((*_INSTALLED, _PACKAGE))


def _walk(module: Any) -> Iterator[tuple[Any, tuple[Step, ...]]]:
    """What can be changed, each with the way to it."""
    waiting: deque[tuple[Any, tuple[Step, ...]]] = deque(
        (value, (("a", name),)) for name, value in list(vars(module).items()) if not name.startswith("__")
    )
    seen: set[int] = set()
    # What is in large ones comes last.
    later: deque[tuple[Any, tuple[Step, ...]]] = deque()
    while (waiting or later) and len(seen) < PARTS_MAX:
        value, steps = (waiting or later).popleft()
        # Some objects answer for others when they are asked what they are.
        kind = type(value)
        if id(value) in seen or issubclass(kind, types.ModuleType):
            continue
        seen.add(id(value))
        if issubclass(kind, (type, types.FunctionType, Action, Workflow)):
            waiting.extend((each, (*steps, *way)) for each, way in _of_code(value, module.__name__))
            continue
        if is_changeable(value):
            yield value, steps
        inside = [(step, each) for step, each in parts_of(value) if type(step[1]) in (str, int) and not is_constant(each)]
        (waiting if len(inside) <= WATCHED_MAX else later).extend((each, (*steps, step)) for step, each in inside)


def _of_code(value: Any, module: str) -> Iterable[tuple[Any, tuple[Step, ...]]]:
    """What a class has, and the defaults of a function, if they are this module's."""
    if isinstance(value, (Action, Workflow)):
        word = "function" if isinstance(value, Action) else "target"
        return [(getattr(value, word), (("a", word),))]
    if value.__module__ != module:
        return []
    if isinstance(value, type):
        inside = [(name, each) for name, each in list(vars(value).items()) if name[:2] != "__" or isinstance(each, types.FunctionType)]
        return [(each, (("a", name),)) for name, each in inside]
    given = [("__defaults__", at, each) for at, each in enumerate(value.__defaults__ or ())]
    given += [("__kwdefaults__", name, each) for name, each in (value.__kwdefaults__ or {}).items()]
    return [(each, (("a", holder), ("i", at))) for holder, at, each in given]


class Watch:
    """What a region can reach that belongs to a module: what variables hold, and lists, dicts and sets that its code names."""

    def __init__(self, named: Iterable[Any], held: Iterable[Any]) -> None:
        # Objects have methods, which may remember something in them.
        watched = [each for each in _reached(named) if is_container(each)]
        self.before = [(each, _seen(each)) for each in (*watched, *_reached(held))]

    def changed(self) -> Optional[Any]:
        """What has changed nevertheless; it is made what it was."""
        found = None
        for value, before in self.before:
            now = _seen(value)
            same = len(now) == len(before) and (now == before if isinstance(now, range) else all(map(_is_same, before, now)))
            if not same:
                found = value
                if len(before) <= WATCHED_MAX:
                    _restore(value, before)
        return found


def watch_of(module: Any, names: frozenset[str], held: Sequence[Any]) -> Optional[Watch]:
    """A watch, if there is something to watch."""
    named = KNOWN.named_by(module, names)
    return Watch(named, held) if named or held else None


def is_container(value: Any) -> bool:
    return issubclass(type(value), (list, dict, set, deque))


def _reached(roots: Iterable[Any]) -> list[Any]:
    """These, and what is in them that can be changed; of very much only the beginning."""
    found, waiting, left = {}, deque(roots), WATCHED_MAX
    while waiting and left > 0:
        value = waiting.popleft()
        if id(value) in found:
            continue
        if is_changeable(value):
            found[id(value)] = value
        for _, each in parts_of(value):
            left -= 1
            if not is_constant(each):
                waiting.append(each)
    return list(found.values())


def _is_same(one: tuple[Step, Any], other: tuple[Step, Any]) -> bool:
    return one[1] is other[1] and one[0] == other[0]


def _seen(value: Any) -> Sequence[tuple[Step, Any]]:
    """What is in it; of what is very large only how much."""
    size = len(value) if is_container(value) else 0
    return [*parts_of(value)] if size <= WATCHED_MAX else range(size)  # type: ignore[return-value]


def names_of(code: types.CodeType) -> frozenset[str]:
    """The names that code and the functions in it take from elsewhere, attributes included."""
    inner = [names_of(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def _restore(value: Any, before: Sequence[tuple[Step, Any]]) -> None:
    if isinstance(value, (list, deque)):
        value.clear()
        value.extend(each for _, each in before)
    elif isinstance(value, dict):
        value.clear()
        value.update((key, each) for (_, key), each in before)
    elif isinstance(value, set):
        value.clear()
        value.update(each for _, each in before)
    elif hasattr(value, "__dict__"):
        vars(value).clear()
        vars(value).update({key: each for (_, key), each in before})
