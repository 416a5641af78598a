"""Spans of time as users type them: `250ms`, `30s`, `5m`, `2h`, `7d`, a number of seconds, or a timedelta."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Union

Span = Union[str, int, float, timedelta]

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+)(ms|s|m|h|d)")


def millis(span: Span) -> int:
    """How many milliseconds a span is."""
    if isinstance(span, timedelta):
        return int(span.total_seconds() * 1_000)
    if isinstance(span, (int, float)) and not isinstance(span, bool):
        return int(span * 1_000)
    text = str(span)
    if not re.fullmatch(r"(?:\d+(?:ms|s|m|h|d))+", text):
        raise ValueError(f"'{text}' is not a span of time: write it like 250ms, 30s, 5m, 2h or 7d")
    return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(text))


def text(span: Span) -> str:
    """A span as definitions hold it."""
    return f"{millis(span)}ms"


async def sleep(span: Span) -> None:
    """Waits. In a workflow the wait is durable: nothing is held in memory or in a worker meanwhile."""
    await asyncio.sleep(millis(span) / 1_000)
