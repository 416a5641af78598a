"""Dicts of several kinds, by the hints that tell them apart: on the wire they are all maps."""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from typing import Any, Callable, get_args, get_origin

from .problem import ValueProblem, item
from .tagged import Decoder, split, untyped, wrong

KINDS = (Counter, OrderedDict, defaultdict)


def mapping_of(kind: type, args: tuple[Any, ...], decoder: Callable[[Any], Decoder]) -> Decoder:
    if kind is Counter:
        counted = mapping((*args, int) if args else (), decoder)
        return lambda value: Counter(counted(value))
    plain = mapping(args, decoder)
    if kind is OrderedDict:
        return lambda value: OrderedDict(plain(value))
    factory = _factory(args[1]) if len(args) == 2 else None
    return lambda value: defaultdict(factory, plain(value))


# What a `defaultdict` makes of nothing, if its hint says so.
_FACTORIES = (list, dict, set, int, float, str, bool, tuple, frozenset, bytes, Decimal, Counter, OrderedDict)


def _factory(hint: Any) -> Any:
    kind = get_origin(hint) or hint
    if kind is defaultdict:
        inner = get_args(hint)
        return functools.partial(defaultdict, _factory(inner[1]) if len(inner) == 2 else None)
    return kind if kind in _FACTORIES else None


def mapping(args: tuple[Any, ...], decoder: Callable[[Any], Decoder]) -> Decoder:
    key_of, one = (decoder(args[0]), decoder(args[1])) if len(args) == 2 else (untyped, untyped)

    def dictionary(value: Any) -> Any:
        parts = split(value)
        if parts is not None and parts[0] == "dict":
            return {key_of(key): one(each) for key, each in parts[1]}
        if type(value) is not dict or parts is not None:
            raise wrong("dict", value)
        entries = dict(value["$map"]) if len(value) == 1 and "$map" in value else value
        found = {}
        for key, each in entries.items():
            try:
                found[_key(key, key_of)] = one(each)
            except ValueProblem as problem:
                raise problem.inside(item(key)) from None
        return found

    return dictionary


def _key(key: str, key_of: Decoder) -> Any:
    """JSON has text keys only: an int or a UUID may be written as text."""
    try:
        return key_of(key)
    except ValueProblem:
        try:
            return key_of(int(key))
        except ValueError:
            pass
        raise
