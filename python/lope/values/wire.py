"""The two texts of a value: JSON and MessagePack. `ormsgpack` is used if it is installed, else `msgpack`."""

from __future__ import annotations

import base64
import functools
import json
import math
from typing import Any, Callable, cast

from .encode import tag

try:
    import ormsgpack
except ImportError:
    ormsgpack = None

try:
    import msgpack  # type: ignore[import-untyped, unused-ignore]
except ImportError:
    msgpack = None


def packer() -> Callable[[Any], bytes]:
    """What `to_msgpack` does, quicker for whoever does it often; for one thread at a time."""
    if ormsgpack is not None:
        return cast(Callable[[Any], bytes], ormsgpack.packb)
    return cast(Callable[[Any], bytes], _msgpack().Packer(use_bin_type=True).pack)


def unpacker() -> Callable[[bytes], Any]:
    """What `from_msgpack` does, quicker for whoever does it often."""
    if ormsgpack is not None:
        return cast(Callable[[bytes], Any], ormsgpack.unpackb)
    return functools.partial(_msgpack().unpackb, raw=False, strict_map_key=False)


def to_msgpack(encoded: Any) -> bytes:
    """An encoded value as MessagePack."""
    return packer()(encoded)


def from_msgpack(packed: bytes) -> Any:
    return unpacker()(packed)


def _msgpack() -> Any:
    if msgpack is None:
        raise ImportError("Lope needs the package msgpack (or ormsgpack)")
    return msgpack


def to_json(encoded: Any) -> str:
    """An encoded value as JSON text: bytes and the floats that JSON has no word for are tagged."""
    return json.dumps(_plain(encoded), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> Any:
    return _restored(json.loads(text))


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    if kind is float and not math.isfinite(value):
        return tag("float", "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf")
    if kind is list:
        return [_plain(each) for each in value]
    if kind is dict:
        return {key: _plain(each) for key, each in value.items()}
    return value


def _restored(value: Any) -> Any:
    if type(value) is list:
        return [_restored(each) for each in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        (key, inside), = value.items()
        if key == "$bytes" and isinstance(inside, str):
            return base64.b64decode(inside)
        if key == "$tag" and inside[0] == "float":
            return float(inside[1])
    return {key: _restored(each) for key, each in value.items()}
