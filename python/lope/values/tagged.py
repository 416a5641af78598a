"""Lope's values as Python's, by their tags alone: tagged values become what they were, plain JSON stays what it is."""

from __future__ import annotations

import base64
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from .encode import is_named_tuple
from .names import find_class
from .problem import ValueProblem, item

Decoder = Callable[[Any], Any]


def split(encoded: Any) -> tuple[str, Any] | None:
    """Name and inside of a tagged value."""
    if type(encoded) is dict and len(encoded) == 1:
        parts = encoded.get("$tag")
        if type(parts) is list and len(parts) == 2:
            return parts[0], parts[1]
    return None


def untyped(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return items(value, untyped)
    if kind is not dict:
        return value
    parts = split(value)
    if parts is not None:
        return _tagged(*parts)
    if len(value) == 1 and "$map" in value:
        return {key: untyped(each) for key, each in value["$map"]}
    if len(value) == 1 and type(value.get("$bytes")) is str:
        return base64.b64decode(value["$bytes"])
    return entries(value, untyped)


def items(values: Any, one: Decoder) -> list[Any]:
    found: list[Any] = []
    try:
        for each in values:
            found.append(one(each))
    except ValueProblem as problem:
        raise problem.inside(item(len(found))) from None
    return found


def entries(values: dict[str, Any], one: Decoder) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in values.items():
        try:
            found[key] = one(each)
        except ValueProblem as problem:
            raise problem.inside(item(key)) from None
    return found


def _tagged(name: str, inside: Any) -> Any:
    plain = _TAGS.get(name)
    if plain is not None:
        return plain(inside)
    if name == "exception":
        from .failures import decode_failure

        return decode_failure(inside)
    cls = find_class(name)
    if type(inside) is list and ":" in name and (cls is None or is_named_tuple(cls)):
        # A named tuple, of which who does not know its class sees the tuple.
        found = items(inside, untyped)
        return tuple(found) if cls is None else cast(Any, cls)._make(found)
    if cls is None:
        raise ValueProblem(f"the class '{name}' cannot be found here")
    from .decode import decoder

    return decoder(cls)({"$tag": [name, inside]})


def read_datetime(text: str) -> datetime:
    """ISO 8601 with a zone behind it (RFC 9557); which of two equal times of a night it is, its offset says."""
    plain, _, suffix = text.partition("[")
    found = datetime.fromisoformat(plain[:-1] + "+00:00" if plain.endswith("Z") else plain)
    if not suffix:
        return found
    name, offset = suffix.rstrip("]").lstrip("!"), found.utcoffset()
    try:
        zone = ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise ValueProblem(f"the time zone '{name}' is not known here; is tzdata installed?") from None
    for fold in (0, 1):
        local = found.replace(tzinfo=zone, fold=fold)
        if offset is None or local.utcoffset() == offset:
            return local
    return found.astimezone(zone)


_TAGS: dict[str, Decoder] = {
    "tuple": lambda inside: tuple(items(inside, untyped)),
    "set": lambda inside: set(items(inside, untyped)),
    "frozenset": lambda inside: frozenset(items(inside, untyped)),
    "dict": lambda inside: {untyped(key): untyped(each) for key, each in inside},
    "int": int,
    "float": float,
    "decimal": Decimal,
    "datetime": read_datetime,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda inside: timedelta(days=inside[0], seconds=inside[1], microseconds=inside[2]),
    "uuid": UUID,
    "path": Path,
    "timestamp": lambda inside: datetime.fromtimestamp(inside / 1000).astimezone(),
    "duration": lambda inside: timedelta(milliseconds=inside),
}


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def wrong(wanted: str, value: Any) -> ValueProblem:
    parts = split(value)
    found = parts[0] if parts else "None" if value is None else type(value).__name__
    return ValueProblem(f"{wanted} expected, not {found} ({shown(value)})")


def expect(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise wrong(kind.__qualname__, value)
    return value
