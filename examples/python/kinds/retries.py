"""Retries by hand: other arguments each time, a pause that grows, and the last error if nothing helps.

    lope run examples/python/kinds/retries.py:stubborn --input '{"good_from": 3}'
"""

from __future__ import annotations

from typing import Optional

from lope import action, sleep, workflow


class Busy(Exception):
    def __init__(self, server: int) -> None:
        super().__init__(f"server {server} is busy")
        self.server = server


@action
async def ask(server: int, good_from: int) -> str:
    if server < good_from:
        raise Busy(server)
    return f"answer of {server}"


@workflow
async def stubborn(good_from: int, most: int = 4) -> dict[str, object]:
    failures: list[str] = []
    last: Optional[Busy] = None
    for server in range(1, most + 1):
        try:
            answer = await ask(server, good_from)
        except Busy as error:
            failures.append(f"{error} ({error.server})")
            last = error
            await sleep(0.001 * 2**server)
        else:
            return {"answer": answer, "failures": failures}
    raise RuntimeError(f"gave up after {len(failures)}") from last
