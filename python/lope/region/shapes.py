"""How objects are written that pickle does not know, or would not make again as they were: views and iterators of dicts and
sets, what a regular expression has found, containers with methods of their own, and objects that answer for attributes that
they do not have."""

from __future__ import annotations

import collections
import copyreg
import functools
import gc
import inspect
import pickle
import re
import sys
import types
from typing import Any, Iterator, Optional, cast

from .tables import TABLES

_VIEWS = {type(getattr({}, each)()): each for each in ("keys", "values", "items")} | {types.MappingProxyType: "proxy"}
_ITERATORS = {type(iter(getattr({}, each)())): each for each in ("keys", "values", "items")} | {type(iter(set())): "set"}


def shape(value: Any) -> Any:
    """How it is made again, if that is known here."""
    kind: Any = type(value)
    if kind in _VIEWS:
        return new_view, (_VIEWS[kind], _whole(value))
    if kind in _ITERATORS:
        return _iterator(value)
    if kind is re.Match:
        return _match(value)
    if kind in TABLES:
        return TABLES[kind](value)
    base = _container(kind)
    if base is not None:
        return _contained(value, base)
    if issubclass(kind, types.SimpleNamespace) and _holders(value) > _ALONE:
        raise pickle.PicklingError("an object whose __dict__ something else holds")
    if _answers(kind) or _pretends(kind):
        return _answering(value)
    return _plain_object(value) if _is_object(kind) else None


# Containers that classes are made of; the nearest is asked for what is in it.
_BASES: tuple[Any, ...] = (
    collections.OrderedDict, collections.defaultdict, collections.deque, dict, list, set, frozenset, tuple,
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _container(kind: Any) -> Any:
    """What a class of the user's is made of that holds other things, unless it says itself how it is made again."""
    if kind.__module__ in ("builtins", "collections"):
        return None
    base = next((each for each in _BASES if issubclass(kind, each)), None)
    known = (object, base, collections.Counter)
    own = any(not any(getattr(kind, word) is getattr(each, word) for each in known) for word in ("__reduce__", "__reduce_ex__"))
    return None if base is None or own or _states(kind) or hasattr(kind, "__setstate__") else base


def _contained(value: Any, base: Any) -> Any:
    """The methods of its own, the constructor among them, have had their say."""
    inside = list(base.items(value)) if issubclass(base, dict) else list(base.__iter__(value))
    if base in (tuple, frozenset):
        return new_container, (type(value), base, inside), _attributes(value), None, None, restore
    more = {"default_factory": value.default_factory} if base is collections.defaultdict else {}
    made = (type(value), base, None, value.maxlen) if base is collections.deque else (type(value), base)
    return new_container, made, (inside, more, _attributes(value)), None, None, restore_container


def new_container(kind: Any, base: Any, inside: Any = None, size: Optional[int] = None) -> Any:
    made = base.__new__(kind) if inside is None else base.__new__(kind, inside)
    if base is collections.deque:
        collections.deque.__init__(made, (), size)
    return made


def restore_container(value: Any, state: tuple[list[Any], dict[str, Any], Any]) -> None:
    inside, more, attributes = state
    base = _container(cast(Any, type(value)))
    for name, each in more.items():
        object.__setattr__(value, name, each)
    if issubclass(base, dict):
        for key, each in inside:
            base.__setitem__(value, key, each)
    elif base is set:
        set.update(value, inside)
    else:
        base.extend(value, inside)
    restore(value, attributes)


def _whole(value: Any) -> Any:
    """What a view or an iterator shows."""
    return next((each for each in gc.get_referents(value) if isinstance(each, (dict, set, frozenset))), None)


def new_view(word: str, whole: Any) -> Any:
    return types.MappingProxyType(whole) if word == "proxy" else getattr(dict, word)(whole)


def _iterator(value: Any) -> Any:
    word, whole = _ITERATORS[type(value)], _whole(value)
    left = value.__length_hint__()
    if whole is not None and not left and _is_stale(value):
        return stale_iterator, (word,)
    if whole is None or not left:
        return new_iterator, (word, set() if word == "set" else {}, 0)
    return new_iterator, (word, whole, len(whole) - left)


def _is_stale(value: Any) -> bool:
    """Has what it goes over changed its size? Then it says so for ever."""
    try:
        next(value)
    except RuntimeError:
        return True
    except StopIteration:
        pass
    return False


def new_iterator(word: str, whole: Any, passed: int) -> Iterator[Any]:
    found: Iterator[Any] = iter(whole if word == "set" else getattr(dict, word)(whole))
    for _ in range(passed):
        next(found)
    return found


def stale_iterator(word: str) -> Iterator[Any]:
    whole: Any = {0} if word == "set" else {0: 0}
    found = new_iterator(word, whole, 0)
    whole.clear()
    return found


def _match(value: Any) -> Any:
    """What was found is sought again, where it was."""
    for way, start in (("search", value.pos), ("match", value.start()), ("fullmatch", value.pos)):
        found = new_match(value.re, way, value.string, start, value.endpos)
        if found is not None and found.regs == value.regs:
            return new_match, (value.re, way, value.string, start, value.endpos)
    raise pickle.PicklingError("a match that is not found again")


def new_match(pattern: Any, way: str, text: Any, start: int, end: int) -> Optional[re.Match[Any]]:
    found: Optional[re.Match[Any]] = getattr(pattern, way)(text, start, end)
    return found


def validation(error: BaseException) -> Any:
    """What pydantic found wrong, which only pydantic can make."""
    kind: Any = type(error)
    if not kind.__module__.startswith("pydantic_core") or not hasattr(kind, "from_exception_data"):
        return None
    found = cast(Any, error)
    details = [{key: each[key] for key in ("type", "loc", "input", "ctx") if key in each} for each in found.errors()]
    try:
        made = new_validation(kind, found.title, details)
    except Exception:
        return None
    return (new_validation, (kind, found.title, details)) if str(made) == str(error) else None


def new_validation(kind: Any, title: str, details: list[dict[str, Any]]) -> BaseException:
    made: BaseException = kind.from_exception_data(title, details)
    return made


@functools.lru_cache(maxsize=4096)
def _answers(kind: Any) -> bool:
    """Does it answer for attributes that it does not have? Pickle would ask it for some before it has any."""
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    own = any(hasattr(kind, each) for each in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
    return plain and not own and hasattr(kind, "__getattr__") and kind.__new__ is object.__new__ and not _states(kind)


@functools.lru_cache(maxsize=4096)
def _pretends(kind: Any) -> bool:
    """Does it say that it is of another class? Pickle would ask it, and not believe it."""
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    own = inspect.getattr_static(kind, "__class__", None)
    return plain and isinstance(own, property) and kind.__new__ is object.__new__ and not _states(kind) and not hasattr(kind, "__setstate__")


def _states(kind: Any) -> bool:
    return getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)


def _answering(value: Any) -> Any:
    return object.__new__, (type(value),), _attributes(value), None, None, restore


@functools.lru_cache(maxsize=4096)
def _is_object(kind: Any) -> bool:
    """Is it made again from its attributes alone, which are in its `__dict__`?"""
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    own = any(hasattr(kind, each) for each in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
    whole = not (own or _states(kind) or copyreg._slotnames(kind))  # type: ignore[attr-defined]
    return bool(plain and whole and kind.__dictoffset__ and isinstance(kind.__new__, types.BuiltinFunctionType))


def _plain_object(value: Any) -> Any:
    if _holders(value) > _ALONE:
        return _new, (type(value),), _attributes(value), None, None, restore
    if not isinstance(type(value).__hash__, types.FunctionType):
        return None
    # What it is hashed by may have to be there before all of it is: sets may lead to each other.
    inside = value.__dict__
    first = {name: each for name, each in inside.items() if _is_bare(each)}
    if len(first) in (0, len(inside)):
        return None
    return new_hashed, (type(value), first), (dict(inside), {}), None, None, restore


def _is_bare(value: Any) -> bool:
    return type(value) in _BARE or type(value) is tuple and all(map(_is_bare, value))


_BARE = {int, str, bytes, float, bool, type(None)}


def new_hashed(kind: Any, first: dict[str, Any]) -> Any:
    made = _new(kind)
    made.__dict__.update(first)
    return made


def _new(kind: Any) -> Any:
    return kind.__new__(kind)


def _attributes(value: Any) -> tuple[Any, ...]:
    """Those in its `__dict__` and in slots; and whether something else holds the `__dict__` itself."""
    slots = copyreg._slotnames(type(value))  # type: ignore[attr-defined]
    found = {each: object.__getattribute__(value, each) for each in slots if _has(value, each)}
    if not type(value).__dictoffset__:
        return {}, found
    inside = object.__getattribute__(value, "__dict__")
    if _holders(value) <= _ALONE + 1:
        return inside, found
    if not isinstance(inspect.getattr_static(type(value), "__dict__", None), types.GetSetDescriptorType):
        raise pickle.PicklingError("an object whose __dict__ something else holds")
    return inside, found, True


def _holders(value: Any) -> int:
    """How many hold its `__dict__`."""
    return sys.getrefcount(object.__getattribute__(value, "__dict__"))


class _Probe:
    pass


_ALONE = _holders(_Probe())


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def restore(value: Any, state: tuple[Any, ...]) -> None:
    inside, slots, *shared = state
    if shared:
        object.__setattr__(value, "__dict__", inside)
    elif inside:
        own = object.__getattribute__(value, "__dict__")
        own.clear()
        own.update(inside)
    for name, each in slots.items():
        object.__setattr__(value, name, each)
