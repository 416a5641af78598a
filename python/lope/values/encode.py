"""Python values as Lope's: plain JSON types as they are, everything else tagged.

A tag is `{"$tag": [name, value]}`; a dict of the user's that looks reserved is written as `{"$map": [[key, value]…]}`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Callable
from uuid import UUID
from zoneinfo import ZoneInfo

from .names import class_name, find_class
from .problem import DEPTH_MAX, ValueProblem, field, item

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
RESERVED = frozenset({"$bytes", "$tag", "$map"})


class Encoded:
    """A value that is encoded already; as a hint, one that is not decoded."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def encode(value: Any, place: str = "value") -> Any:
    """The value as it goes on the wire; a `ValueProblem` names the place of what cannot."""
    try:
        return _encode(value, DEPTH_MAX)
    except ValueProblem as problem:
        raise problem.inside(f".{place}") from None


def tag(name: str, value: Any) -> dict[str, Any]:
    return {"$tag": [name, value]}


def _encode(value: Any, levels: int) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is bytes or kind is str and value.isascii():
        return value
    if kind is str:
        return _unicode(value)
    if levels == 0:
        raise ValueProblem(f"nested deeper than {DEPTH_MAX} levels; does it hold itself?")
    if kind is int:
        return value if INT_MIN <= value <= INT_MAX else tag("int", str(value))
    encoder = _ENCODERS.get(kind)
    if encoder is None:
        encoder = _ENCODERS[kind] = _encoder(kind)
    return encoder(value, levels - 1)


def _unicode(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        found = f"{value[error.start]!r} at {error.start}"
        raise ValueProblem(f"text with a lone surrogate ({found}) is not Unicode and cannot be sent; send bytes") from None
    return value


def _list(value: Any, levels: int) -> list[Any]:
    found: list[Any] = []
    try:
        for each in value:
            found.append(_encode(each, levels))
    except ValueProblem as problem:
        raise problem.inside(item(len(found))) from None
    return found


def _dict(value: Mapping[Any, Any], levels: int) -> Any:
    found: dict[str, Any] = {}
    for key, each in value.items():
        if type(key) is not str:
            return _odd_dict(value, levels)
        try:
            found[key if key.isascii() else _unicode(key)] = _encode(each, levels)
        except ValueProblem as problem:
            raise problem.inside(item(key)) from None
    if len(found) == 1 and not RESERVED.isdisjoint(found):
        return {"$map": [[key, each] for key, each in found.items()]}
    return found


def _odd_dict(value: Mapping[Any, Any], levels: int) -> Any:
    pairs: list[list[Any]] = []
    for key, each in value.items():
        try:
            pairs.append([_encode(key, levels), _encode(each, levels)])
        except ValueProblem as problem:
            raise problem.inside(item(key)) from None
    return tag("dict", pairs)


def _fields(names: tuple[str, ...]) -> Callable[[Any, int], dict[str, Any]]:
    def fields(value: Any, levels: int) -> dict[str, Any]:
        found = {}
        for name in names:
            try:
                found[name] = _encode(getattr(value, name), levels)
            except ValueProblem as problem:
                raise problem.inside(field(name)) from None
        return found

    return fields


def _encoder(kind: type) -> Callable[[Any, int], Any]:
    """How values of a type are written, worked out once."""
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if is_model(kind):
        return _model(kind)
    if is_named_tuple(kind) and find_class(class_name(kind)) is kind:
        return _named_tuple(kind)
    for known, encoder in _FAMILIES:
        if issubclass(kind, known):
            return encoder
    if issubclass(kind, BaseException):
        from .failures import encode_failure

        return lambda value, _: tag("exception", encode_failure(value, traceback=False))
    return _refuse


def _enum(kind: type[enum.Enum]) -> Callable[[Any, int], Any]:
    name, form = class_name(kind), enum_form(kind)
    return lambda value, levels: tag(name, tag(form, {"name": value.name, "value": _encode(value.value, levels)}))


def enum_form(kind: type[enum.Enum]) -> str:
    return "enum.str" if issubclass(kind, str) else "enum.int" if issubclass(kind, int) else "enum"


def _dataclass(kind: type) -> Callable[[Any, int], Any]:
    name, form = class_name(kind), object_form(kind)
    names = tuple(each.name for each in dataclasses.fields(kind))
    fields = _attributes(names) if initial(kind) else _fields(names)
    if form is None:
        return lambda value, levels: tag(name, fields(value, levels))
    return lambda value, levels: tag(name, tag(form, fields(value, levels)))


def _attributes(names: tuple[str, ...]) -> Callable[[Any, int], dict[str, Any]]:
    """Fields and all else that an object has: what was made of a variable that is not kept cannot be made again."""
    of_fields = _fields(names)

    def attributes(value: Any, levels: int) -> dict[str, Any]:
        more = tuple(name for name in getattr(value, "__dict__", ()) if name not in names)
        return {**of_fields(value, levels), **_fields(more)(value, levels)}

    return attributes


def initial(kind: Any) -> list[str]:
    """The variables that only a dataclass's constructor sees (`InitVar`)."""
    pseudo = getattr(dataclasses, "_FIELD_INITVAR", None)
    return [name for name, each in kind.__dataclass_fields__.items() if each._field_type is pseudo]


def object_form(kind: type) -> str | None:
    """What the law must know about an object: a frozen one cannot be changed and may be a key."""
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None:
        return "model"
    return "frozen" if parameters.frozen else None


def _model(kind: type) -> Callable[[Any, int], Any]:
    name = class_name(kind)
    known = tuple(kind.model_fields)  # type: ignore[attr-defined]
    fields = _fields(known)

    def model(value: Any, levels: int) -> Any:
        found = fields(value, levels)
        for more, each in (getattr(value, "__pydantic_extra__", None) or {}).items():
            try:
                found[more] = _encode(each, levels)
            except ValueProblem as problem:
                raise problem.inside(field(more)) from None
        given = value.model_fields_set
        # Which fields were given is said if some were not.
        form = "model" if len(given) == len(found) else f"model:{','.join(each for each in found if each in given)}"
        return tag(name, tag(form, found))

    return model


def is_model(kind: type) -> bool:
    """Is it a pydantic model? Told by its looks, so that pydantic need not be installed."""
    return hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_make") and hasattr(kind, "_fields")


def _named_tuple(kind: type) -> Callable[[Any, int], Any]:
    name = class_name(kind)
    return lambda value, levels: tag(name, _list(value, levels))


def _refuse(value: Any, _: int) -> Any:
    raise ValueProblem(
        f"a {type(value).__module__}.{type(value).__qualname__} cannot be sent: "
        "use JSON types, dataclasses, pydantic models, enums, datetime, Decimal, UUID, bytes, Path, set or tuple"
    )


def _datetime(value: datetime, _: int) -> Any:
    """A zone stands behind the offset: `2024-10-26T12:00:00+02:00[Europe/Berlin]`."""
    text, zone = value.isoformat(), value.tzinfo
    if isinstance(zone, ZoneInfo) and zone.key:
        text += f"[{zone.key}]"
    return tag("datetime", text)


def _timedelta(value: timedelta, _: int) -> Any:
    return tag("timedelta", [value.days, value.seconds, value.microseconds])


_FAMILIES: tuple[tuple[type, Callable[[Any, int], Any]], ...] = (
    (bool, lambda value, _: bool(value)),
    (int, lambda value, levels: _encode(int(value), levels)),
    (float, lambda value, _: float(value)),
    (str, lambda value, _: _unicode(str.__str__(value))),
    (bytes, lambda value, _: bytes(value)),
    (bytearray, lambda value, _: bytes(value)),
    (list, _list),
    (tuple, lambda value, levels: tag("tuple", _list(value, levels))),
    (set, lambda value, levels: tag("set", _list(_steady(value), levels))),
    (frozenset, lambda value, levels: tag("frozenset", _list(_steady(value), levels))),
    (Mapping, _dict),
    (Decimal, lambda value, _: tag("decimal", str(value))),
    (datetime, _datetime),
    (date, lambda value, _: tag("date", value.isoformat())),
    (time, lambda value, _: tag("time", value.isoformat())),
    (timedelta, _timedelta),
    (UUID, lambda value, _: tag("uuid", str(value))),
    (PurePath, lambda value, _: tag("path", str(value))),
)


def _steady(items: Any) -> list[Any]:
    """A set's items in an order that does not change from process to process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda each: (type(each).__name__, repr(each)))


_ENCODERS: dict[type, Callable[[Any, int], Any]] = {
    list: _list,
    dict: _dict,
    Encoded: lambda value, _: value.value,
}
