"""A saga: what was done is undone in the reverse order when a later step fails.

    lope run examples/python/kinds/saga.py:book --input '{"trip": "rome", "fails": "hotel"}'
"""

from __future__ import annotations

from typing import Any, Callable, Coroutine

from lope import action, workflow


class NoRoom(Exception):
    def __init__(self, what: str) -> None:
        super().__init__(f"no {what}")
        self.what = what


@action
async def reserve(what: str, trip: str, fails: str) -> str:
    if what == fails:
        raise NoRoom(what)
    return f"{what}-{trip}"


@action
async def release(reference: str) -> str:
    return f"released {reference}"


@workflow
async def book(trip: str, fails: str = "") -> dict[str, Any]:
    undo: list[tuple[Callable[..., Coroutine[Any, Any, str]], str]] = []
    try:
        for what in ("flight", "hotel", "car"):
            undo.append((release, await reserve(what, trip, fails)))
    except NoRoom as error:
        undone = [await compensate(reference) for compensate, reference in reversed(undo)]
        return {"failed": error.what, "undone": undone}
    else:
        return {"booked": [reference for _, reference in undo]}
    finally:
        undo.clear()
