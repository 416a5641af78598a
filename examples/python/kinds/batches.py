"""Batches: so many at a time, in order, with what is left over.

    lope run examples/python/kinds/batches.py:load_all --input '{"rows": [1, 2, 3, 4, 5], "size": 2}'
"""

from __future__ import annotations

from itertools import islice
from typing import Iterable, Iterator

from lope import action, gather, workflow


@action
async def store(rows: list[int]) -> int:
    return sum(rows)


def batched(rows: Iterable[int], size: int) -> Iterator[list[int]]:
    rest = iter(rows)
    while batch := list(islice(rest, size)):
        yield batch


@workflow
async def load_all(rows: list[int], size: int) -> dict[str, object]:
    done: list[int] = []
    for at in range(0, len(rows), size):
        done.append(await store(rows[at : at + size]))
    twice = await gather(*[store([2 * row for row in batch]) for batch in batched(rows, size)])
    return {"done": done, "twice": twice, "batches": len(done), "same": [2 * each for each in done] == twice}
