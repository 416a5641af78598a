"""Deadlines: an answer in time, or what to do without it.

    lope run examples/python/kinds/deadlines.py:quickest --input '{"delays": [0.001, 30]}'
"""

from __future__ import annotations

import asyncio

from lope import action, workflow


@action
async def quote(seller: int, delay: float) -> int:
    await asyncio.sleep(delay)
    return seller * 10


@workflow
async def quickest(delays: list[float], patience: float = 2.0) -> list[object]:
    found: list[object] = []
    for seller, delay in enumerate(delays):
        try:
            found.append(await asyncio.wait_for(quote(seller, delay), patience))
        except asyncio.TimeoutError:
            found.append("late")
    return found
