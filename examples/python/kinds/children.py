"""Workflows that await workflows: each is a run of its own, alone, in a loop and many at once.

    lope run examples/python/kinds/children.py:quarter --input '{"months": [[1, 2], [3], [4, 5]]}'
"""

from __future__ import annotations

from lope import action, gather, workflow


@action
async def square(n: int) -> int:
    return n * n


@workflow
async def month(numbers: list[int], scale: int = 1) -> int:
    return scale * sum([await square(n) for n in numbers])


@workflow
async def empty(what: str) -> None:
    raise LookupError(what)


@workflow
async def quarter(months: list[list[int]]) -> dict[str, object]:
    totals = await gather(*[month(numbers) for numbers in months])
    scaled = await month(months[0], scale=10)
    try:
        await empty("nothing there")
        missing = None
    except LookupError as error:
        missing = str(error)
    return {"totals": totals, "scaled": scaled, "missing": missing}
