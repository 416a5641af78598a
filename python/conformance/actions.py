"""The actions that `check.py` calls, for the worker of this package."""

from __future__ import annotations

import asyncio
from typing import Any

from lope import action


@action
async def echo(value: Any) -> Any:
    return value


@action
async def fail(message: str) -> None:
    raise ValueError(message)


@action
async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


@action
def say(text: str) -> None:
    print(text)


@action
async def big(size: int) -> bytes:
    return bytes(size)
