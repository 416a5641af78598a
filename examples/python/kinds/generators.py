"""Generators inside a region: pipelines of them are used up before the next await.

    lope run examples/python/kinds/generators.py:report --input '{"lines": ["a=1", "b=2", "# no", "a=5"]}'
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Iterable, Iterator

from lope import action, workflow


@action
async def scale(values: list[int]) -> list[int]:
    return [value * 10 for value in values]


def pairs(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        if found := re.fullmatch(r"(\w+)=(\d+)", line):
            yield found[1], int(found[2])


@workflow
async def report(lines: list[str]) -> dict[str, object]:
    parsed = pairs(line for line in lines if not line.startswith("#"))
    values = [value for _, value in parsed]
    scaled = await scale(values)
    running = list(accumulate(scaled))
    total = sum(value for name, value in pairs(lines) if name == "a")
    return {"scaled": scaled, "running": running, "total": total, "any": any(value > 40 for value in scaled)}
