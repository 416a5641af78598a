"""Sets: what is new, what is gone, what is common; a frontier that grows while it is walked.

    lope run examples/python/kinds/sets.py:reachable --input '{"start": "a"}'
"""

from __future__ import annotations

from lope import action, workflow

LINKS = {"a": ["b", "c"], "b": ["c", "d"], "c": [], "d": ["a", "e"], "e": ["e"]}


@action
async def links(page: str) -> set[str]:
    return set(LINKS[page])


@workflow
async def reachable(start: str) -> dict[str, object]:
    seen: set[str] = set()
    frontier = {start}
    rounds = 0
    while frontier:
        rounds += 1
        seen |= frontier
        found: set[str] = set()
        for page in sorted(frontier):
            found |= await links(page)
        frontier = found - seen
    leaves = {page for page in seen if not (await links(page)) - {page}}
    return {"seen": seen, "rounds": rounds, "leaves": leaves, "closed": leaves < seen, "both": seen & {"a", "z"}}
