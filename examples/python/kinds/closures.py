"""Functions inside workflows: closures over variables, late binding, functions as arguments.

    lope run examples/python/kinds/closures.py:rules --input '{"values": [1, 5, 12]}'
"""

from __future__ import annotations

from typing import Callable

from lope import action, workflow


@action
async def threshold(name: str) -> int:
    return len(name)


@workflow
async def rules(values: list[int]) -> dict[str, object]:
    low = await threshold("low")

    def fits(value: int) -> bool:
        return low <= value < high

    high = await threshold("very high")
    checks: dict[str, Callable[[int], bool]] = {"fits": fits, "even": lambda value: value % 2 == 0}
    extra = await threshold("x")
    checks["large"] = lambda value: value > 10 * extra
    found = {name: [value for value in values if check(value)] for name, check in checks.items()}
    low = await threshold("")
    return {**found, "again": [value for value in values if fits(value)]}
