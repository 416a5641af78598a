"""Polling: ask, sleep a little longer each time, and give up after a while.

    lope run examples/python/kinds/polling.py:until_ready --input '{"job": "j", "ready_after": 3}'
"""

from __future__ import annotations

import asyncio

from lope import action, workflow


@action
async def state_of(job: str, asked: int, ready_after: int) -> str:
    return "ready" if asked >= ready_after else "running"


@workflow
async def until_ready(job: str, ready_after: int, most: int = 6) -> dict[str, object]:
    pause, waited = 0.01, []
    for asked in range(1, most + 1):
        state = await state_of(job, asked, ready_after)
        if state == "ready":
            break
        await asyncio.sleep(pause)
        waited.append(pause)
        pause = min(pause * 2, 0.05)
    else:
        raise TimeoutError(f"{job} is not ready after {most} looks")
    return {"asked": asked, "waited": waited}
