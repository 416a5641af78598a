"""Tasks, groups of them and timeouts, as asyncio has them. Needs Python 3.11.

    lope run examples/python/kinds/timeouts.py:race --input '{"delays": [0.2, 0.001, 60]}'
"""

from __future__ import annotations

import asyncio
import sys

from lope import action, workflow

if sys.version_info < (3, 11):
    raise ImportError("asyncio has these from Python 3.11 on")


@action
async def answer(n: int, delay: float) -> int:
    await asyncio.sleep(delay)
    return n


@workflow
async def race(delays: list[float]) -> dict[str, object]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(n, 0.001)) for n in range(len(delays))]
    together = [task.result() for task in tasks]
    slow = asyncio.create_task(answer(-1, delays[-1]))
    try:
        async with asyncio.timeout(1.5):
            await slow
        late = False
    except TimeoutError:
        late = True
    quick = [answer(n, delay) for n, delay in enumerate(delays[:-1])]
    order = [await each for each in asyncio.as_completed(quick)]
    return {"together": together, "late": late, "cancelled": slow.cancelled(), "order": order}
