"""Lope's values as Python's, by type hint: plain JSON becomes what the hint asks for, tagged values what they were."""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import types
from collections import abc
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePath
from typing import Annotated, Any, Callable, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

from .dicts import KINDS, mapping, mapping_of
from .encode import Encoded, initial, is_model, is_named_tuple
from .names import class_name, find_class
from .problem import ValueProblem, field, item
from .tagged import Decoder, expect, items, read_datetime, shown, split, untyped, wrong


def decode(encoded: Any, hint: Any = Any, place: str = "value") -> Any:
    """The Python value of an encoded one; a `ValueProblem` names the place of what does not fit the hint."""
    try:
        return decoder(hint)(encoded)
    except ValueProblem as problem:
        raise problem.inside(f".{place}") from None


def decoder(hint: Any) -> Decoder:
    try:
        return _cached(hint)
    except TypeError:
        return _make(hint)


@functools.lru_cache(maxsize=4096)
def _cached(hint: Any) -> Decoder:
    return _make(hint)


def _make(hint: Any) -> Decoder:
    if hint is Any:
        return untyped
    if hint is Encoded:
        return lambda value: value
    if isinstance(hint, TypeVar):
        return decoder(hint.__bound__) if hint.__bound__ is not None else untyped
    origin = get_origin(hint)
    if origin is Annotated:
        return decoder(get_args(hint)[0])
    if origin is Literal:
        return _literal(get_args(hint))
    if origin is Union or origin is getattr(types, "UnionType", None):
        return _union(get_args(hint))
    kind = origin or hint
    if hint is None or kind is type(None):
        return _none
    if not isinstance(kind, type) or kind is object:
        return untyped
    return _of_class(kind, get_args(hint))


def _of_class(kind: type, args: tuple[Any, ...]) -> Decoder:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if is_model(kind):
        return _model(kind)
    if is_typeddict(kind):
        return _typed_dict(kind)
    if issubclass(kind, tuple):
        return _tuple(kind, args)
    if kind in (set, frozenset, abc.Set, abc.MutableSet):
        return _as_tagged(kind, args) if kind is abc.Set else _collection(frozenset if kind is frozenset else set, args)
    if kind in (list, abc.MutableSequence):
        return _collection(list, args)
    if kind in _READ:
        return _as_tagged(kind, args)
    if kind in (dict, abc.Mapping, abc.MutableMapping):
        return _dict(args)
    if kind in KINDS:
        return mapping_of(kind, args, decoder)
    if issubclass(kind, BaseException):
        return lambda value: expect(kind, untyped(value))
    return lambda value: expect(kind, untyped(value))


def _none(value: Any) -> None:
    if value is not None:
        raise wrong("None", value)


def _plain(kind: type) -> Decoder:
    def plain(value: Any) -> Any:
        if type(value) is kind:
            return value
        value = untyped(value) if type(value) is dict else value
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        raise wrong(kind.__name__, value)

    return plain


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    value = untyped(value) if type(value) is dict else value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise wrong("float", value)


def _bytes(value: Any) -> bytes:
    value = untyped(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise wrong("bytes (or base64 text)", value) from None
    return bytes(expect(bytes, value))


def _bytearray(value: Any) -> bytearray:
    return bytearray(_bytes(value))


def _from_text(kind: type, *also: type) -> Decoder:
    """A type that has a text form; plain input may give that."""
    read: Callable[[Any], Any] = read_datetime if kind is datetime else getattr(kind, "fromisoformat", kind)

    def from_text(value: Any) -> Any:
        value = untyped(value)
        if isinstance(value, kind):
            return value
        if isinstance(value, (str, *also)) and not isinstance(value, bool):
            try:
                return read(str(value))
            except (ValueError, InvalidOperation):
                pass
        raise wrong(kind.__name__, value)

    return from_text


def _timedelta(value: Any) -> timedelta:
    from .. import spans

    value = untyped(value)
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(milliseconds=spans.millis(value))
    except (ValueError, TypeError):
        raise wrong("timedelta (or a span such as 30s)", value) from None


_SCALARS: dict[type, Decoder] = {
    str: _plain(str),
    int: _plain(int),
    bool: _plain(bool),
    float: _float,
    bytes: _bytes,
    bytearray: _bytearray,
    Decimal: _from_text(Decimal, int, float),
    datetime: _from_text(datetime),
    date: _from_text(date),
    time: _from_text(time),
    timedelta: _timedelta,
    UUID: _from_text(UUID),
    Path: _from_text(Path),
    PurePath: _from_text(Path),
}


def _literal(allowed: tuple[Any, ...]) -> Decoder:
    def literal(value: Any) -> Any:
        found = untyped(value)
        for each in allowed:
            if type(each) is type(found) and each == found:
                return each
            if isinstance(each, enum.Enum) and found == each.value:
                return each
        raise wrong(" or ".join(repr(each) for each in allowed), value)

    return literal


def _union(members: tuple[Any, ...]) -> Decoder:
    """The first member that the value fits; one that it *is* goes before one that it could be made into."""
    decoders = [decoder(each) for each in members]

    def union(value: Any) -> Any:
        exact = _exact(value, members, decoders)
        if exact is not None:
            return exact(value)
        problems: list[ValueProblem] = []
        for one in decoders:
            try:
                return one(value)
            except ValueProblem as problem:
                problems.append(problem)
        if len([each for each in members if each is not type(None)]) == 1:
            raise next(each for each, hint in zip(problems, members) if hint is not type(None))
        raise wrong(" or ".join(_title(each) for each in members), value)

    return union


def _exact(value: Any, members: tuple[Any, ...], decoders: list[Decoder]) -> Decoder | None:
    parts = split(value)
    for hint, one in zip(members, decoders):
        kind = get_origin(hint) or hint
        if not isinstance(kind, type):
            continue
        if parts is None and type(value) is kind and kind is not dict:
            return one
        if parts is not None and (class_name(kind) == parts[0] or _TAG_OF.get(kind) == parts[0]):
            return one
    return None


_TAG_OF: dict[type, str] = {
    tuple: "tuple", set: "set", frozenset: "frozenset", Decimal: "decimal", datetime: "datetime", date: "date",
    time: "time", timedelta: "timedelta", UUID: "uuid", Path: "path",
}  # fmt: skip


def _title(hint: Any) -> str:
    return "None" if hint is type(None) else getattr(hint, "__name__", None) or str(hint)


def _fields_of(value: Any, kind: type) -> dict[str, Any] | None:
    """The fields of an object of this class (or of a subclass of it), or a plain map; nothing if it is neither."""
    parts = split(value)
    if parts is None:
        return value if type(value) is dict else None
    form = split(parts[1])
    inside = form[1] if form is not None else parts[1]
    return inside if type(inside) is dict and ":" in parts[0] else None


def _subclass(value: Any, kind: type) -> type:
    """The class that a tagged value says it is, if that is a subclass of the one asked for."""
    parts = split(value)
    if parts is None or parts[0] == class_name(kind):
        return kind
    found = find_class(parts[0])
    if found is None or not issubclass(found, kind):
        raise ValueProblem(f"{kind.__qualname__} expected, not {parts[0]}")
    return found


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:
        return {}


def _dataclass(kind: type) -> Decoder:
    hints = functools.cache(lambda: _hints(kind))
    known = {each.name: each for each in dataclasses.fields(kind)}
    required = [
        each.name for each in known.values()
        if each.init and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    ]  # fmt: skip
    # Variables of the constructor alone: plain values give them, objects have what was made of them.
    more = initial(kind)

    def dataclass(value: Any) -> Any:
        found = _fields_of(value, kind)
        if found is None:
            raise wrong(kind.__qualname__, value)
        target = _subclass(value, kind)
        if target is not kind:
            return decoder(target)(value)
        plain = split(value) is None
        _check_names(found, [*known, *more] if plain else found if more else known, required, kind)
        values = _typed(found, hints())
        if plain:
            return _construct(kind, {name: each for name, each in values.items() if name in more or known[name].init})
        # What was an object is put together again as it was; its constructor has had its say.
        made: Any = object.__new__(kind)
        for name, each in values.items():
            object.__setattr__(made, name, each)
        return made

    return dataclass


def _construct(kind: type, values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise ValueProblem(f"{kind.__qualname__}: {error}") from error


def _check_names(found: dict[str, Any], known: Any, required: list[str], kind: type) -> None:
    missing = [name for name in required if name not in found]
    if missing:
        raise ValueProblem(f"{kind.__qualname__} lacks {', '.join(missing)}")
    unknown = [name for name in found if name not in known]
    if unknown:
        raise ValueProblem(f"{kind.__qualname__} has no field {', '.join(unknown)}")


def _typed(found: dict[str, Any], hints: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for name, each in found.items():
        try:
            values[name] = decoder(hints.get(name, Any))(each)
        except ValueProblem as problem:
            raise problem.inside(field(name)) from None
    return values


def _model(cls: type) -> Decoder:
    kind = cast(Any, cls)
    hints = functools.cache(lambda: {name: each.annotation for name, each in kind.model_fields.items()})

    def model(value: Any) -> Any:
        found = _fields_of(value, kind)
        if found is None:
            raise wrong(kind.__qualname__, value)
        target: Any = _subclass(value, kind)
        if class_name(target) != class_name(kind):
            return decoder(target)(value)
        if split(value) is None:
            try:
                return kind.model_validate({name: untyped(each) for name, each in found.items()})
            except ValueError as error:
                raise ValueProblem(str(error)) from error
        form = split(cast(Any, split(value))[1])
        given = form[0].partition(":")[2].split(",") if form is not None and ":" in form[0] else found
        return kind.model_construct(_fields_set={each for each in given if each}, **_typed(found, hints()))

    return model


def _enum(kind: type[enum.Enum]) -> Decoder:
    def member(value: Any) -> Any:
        parts = split(value)
        inside = split(parts[1]) if parts is not None else None
        wanted = inside[1]["value"] if inside is not None else value
        try:
            return kind(untyped(wanted))
        except ValueError:
            raise ValueProblem(f"{shown(wanted)} is not a valid {kind.__qualname__}") from None

    return member


def _typed_dict(kind: Any) -> Decoder:
    hints = _hints(kind)

    def typed_dict(value: Any) -> Any:
        if type(value) is not dict or split(value) is not None:
            raise wrong(kind.__name__, value)
        _check_names(value, hints, sorted(kind.__required_keys__), kind)
        return _typed(value, hints)

    return typed_dict


def _list_inside(value: Any, *tags: str) -> list[Any]:
    parts = split(value)
    if parts is not None and parts[0] in tags:
        return list(parts[1])
    if type(value) is list:
        return value
    raise wrong(tags[0] if tags else "list", value)


def _tuple(kind: type, args: tuple[Any, ...]) -> Decoder:
    if is_named_tuple(kind):
        hints = [_hints(kind).get(name, Any) for name in kind._fields]  # type: ignore[attr-defined]
        return lambda value: _make_of(kind, value)(_each(_inside_tuple(value), hints, kind.__name__))
    if len(args) == 2 and args[1] is Ellipsis:
        one = decoder(args[0])
        return lambda value: _make_of(tuple, value)(items(_inside_tuple(value), one))
    if not args:
        return lambda value: _make_of(tuple, value)(items(_inside_tuple(value), untyped))
    return lambda value: _make_of(tuple, value)(_each(_inside_tuple(value), list(args), "tuple"))


def _inside_tuple(value: Any) -> list[Any]:
    parts = split(value)
    return _list_inside(value, "tuple", *([parts[0]] if parts is not None and ":" in parts[0] else []))


def _make_of(kind: type, value: Any) -> Callable[[list[Any]], Any]:
    """What makes a tuple of items: the class that was asked for, or the named one that the value was."""
    parts = split(value)
    named = parts is not None and find_class(parts[0]) is not None
    found = _subclass(value, kind) if named else kind
    return cast(Any, found)._make if is_named_tuple(found) else found


def _each(values: list[Any], hints: list[Any], what: str) -> list[Any]:
    if len(values) != len(hints):
        raise ValueProblem(f"{what} of {len(hints)} items expected, not {len(values)}")
    found: list[Any] = []
    try:
        for value, hint in zip(values, hints):
            found.append(decoder(hint)(value))
    except ValueProblem as problem:
        raise problem.inside(item(len(found))) from None
    return found


def _collection(kind: Any, args: tuple[Any, ...]) -> Decoder:
    one = decoder(args[0]) if args else untyped
    if kind is list:
        return lambda value: items(_list_inside(value), one)
    return lambda value: kind(items(_list_inside(value, "set", "frozenset"), one))


# What is only read may be one of several things, and stays what it was.
_READ = (abc.Sequence, abc.Iterable, abc.Collection, abc.Container, abc.Reversible)


def _as_tagged(kind: type, args: tuple[Any, ...]) -> Decoder:
    hint = args[0] if args else Any
    ways: dict[Any, Decoder] = {
        "tuple": _tuple(tuple, (hint, ...)),
        "frozenset": _collection(frozenset, (hint,)),
        "set": _collection(set, (hint,)),
        "dict": _dict((hint, Any)),
        list: _collection(set if kind is abc.Set else list, (hint,)),
    }
    ways[dict] = ways["dict"]

    def as_tagged(value: Any) -> Any:
        parts = split(value)
        way = type(value) if parts is None else "tuple" if type(parts[1]) is list and ":" in parts[0] else parts[0]
        found = ways[way](value) if way in ways else None
        if not isinstance(found, kind):
            raise wrong(kind.__name__, value)
        return found

    return as_tagged


def _dict(args: tuple[Any, ...]) -> Decoder:
    return mapping(args, decoder)


def decode_result(encoded: Any, function: Callable[..., Any]) -> Any:
    """What a function returned, as its hint says where its tags do not."""
    hint = result_hint(function)
    try:
        return untyped(encoded) if hint is None else decoder(hint)(encoded)
    except ValueProblem:
        return untyped(encoded)


@functools.lru_cache(maxsize=4096)
def result_hint(function: Callable[..., Any]) -> Any:
    """What a function says that it returns, if that tells more than the tags of its value."""
    hint = _hints(function).get("return", Any)
    return hint if _tells_more(hint) else None


def _tells_more(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    return kind in (*KINDS, bytearray) or any(map(_tells_more, get_args(hint)))
