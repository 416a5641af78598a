"""No more than so many at once: a semaphore around actions, a lock around what must not mix.

    lope run examples/python/kinds/semaphores.py:crawl --input '{"pages": ["a", "b", "c", "d"]}'
"""

from __future__ import annotations

import asyncio

from lope import action, workflow


@action
async def load(page: str) -> int:
    return ord(page)


@workflow
async def crawl(pages: list[str]) -> dict[str, object]:
    gate, lock = asyncio.Semaphore(2), asyncio.Lock()
    inside, most = 0, 0
    sums: list[int] = []

    async def one(page: str) -> int:
        nonlocal inside, most
        async with gate:
            inside += 1
            most = max(most, inside)
            size = await load(page)
            inside -= 1
        async with lock:
            total = (sums[-1] if sums else 0) + size
            await load(page)
            sums.append(total)
        return size

    sizes = await asyncio.gather(*[one(page) for page in pages])
    return {"sizes": sizes, "most": most <= 2, "total": sums[-1], "steps": len(sums), "free": not gate.locked()}
