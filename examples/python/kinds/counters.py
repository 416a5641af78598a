"""Counting: Counter, most_common, sums of counters, a deque of the latest.

    lope run examples/python/kinds/counters.py:words --input '{"texts": ["a b a", "b c"]}'
"""

from __future__ import annotations

from collections import Counter, deque

from lope import action, workflow


@action
async def split(text: str) -> list[str]:
    return text.split()


@workflow
async def words(texts: list[str]) -> dict[str, object]:
    counts: Counter[str] = Counter()
    latest: deque[str] = deque(maxlen=2)
    lengths = Counter[int]()
    for text in texts:
        found = await split(text)
        counts.update(found)
        lengths[len(found)] += 1
        latest.extend(found)
    common = counts & Counter(await split(texts[0]))
    return {
        "most": counts.most_common(2),
        "total": sum(counts.values()),
        "missing": counts["zzz"],
        "lengths": dict(lengths),
        "latest": list(latest),
        "common": sorted(common.elements()),
    }
