"""Signals: values that are sent to a run by name. Outside of Lope they come from `lope.testing`."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, Callable, Optional, TypeVar, overload

from . import spans
from .spans import Span

MISSING: Any = object()

# Who answers `wait_signal` outside of Lope: given the name, a value or MISSING.
source: ContextVar[Optional[Callable[[str], Any]]] = ContextVar("lope_signals", default=None)


T = TypeVar("T")


@overload
async def wait_signal(name: str, *, timeout: Optional[Span] = None, default: Any = MISSING) -> Any: ...
@overload
async def wait_signal(name: str, *, type: type[T], timeout: Optional[Span] = None) -> T: ...
@overload
async def wait_signal(name: str, *, type: type[T], timeout: Optional[Span] = None, default: T) -> T: ...


async def wait_signal(name: str, *, timeout: Optional[Span] = None, default: Any = MISSING, type: Any = Any) -> Any:
    """The next value of the signal `name`, made what `type` says. After `timeout` it is `default`, or a `TimeoutError` if
    there is none."""
    answer = source.get()
    value = answer(name) if answer is not None else MISSING
    if value is not MISSING:
        return value
    if timeout is None:
        raise RuntimeError(f"nobody sends the signal '{name}': outside of Lope use lope.testing")
    await asyncio.sleep(spans.millis(timeout) / 1_000)
    if default is MISSING:
        raise TimeoutError("the signal did not come in time")
    return default
