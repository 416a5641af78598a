"""Many at once, some of which fail: errors beside results, and the first error alone.

    lope run examples/python/kinds/gathering.py:checked --input '{"urls": ["a", "bad", "b"]}'
"""

from __future__ import annotations

import asyncio
from typing import Any

from lope import action, gather, workflow


class Unreachable(ConnectionError):
    pass


@action
async def fetch(url: str) -> int:
    await asyncio.sleep(len(url) / 10)
    if url.startswith("bad"):
        raise Unreachable(url)
    return len(url)


async def doubled(url: str) -> int:
    return 2 * await fetch(url)


@workflow
async def checked(urls: list[str]) -> dict[str, Any]:
    answers = await asyncio.gather(*(doubled(url) for url in urls), return_exceptions=True)
    good = {url: each for url, each in zip(urls, answers) if not isinstance(each, BaseException)}
    bad = {url: f"{type(each).__name__}: {each}" for url, each in zip(urls, answers) if isinstance(each, OSError)}
    try:
        await gather(*[fetch(url) for url in urls])
        first = None
    except ConnectionError as error:
        first = str(error)
    return {"good": good, "bad": bad, "first": first}
