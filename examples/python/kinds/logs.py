"""Logging and printing in a workflow: what regions write is in the run's log.

    lope run examples/python/kinds/logs.py:noisy --input 3
"""

from __future__ import annotations

import logging

from lope import action, workflow

log = logging.getLogger(__name__)


@action
async def half(n: int) -> float:
    log.info("halving %d", n)
    return n / 2


@workflow
async def noisy(n: int) -> list[float]:
    found = []
    for each in range(n):
        log.info("round %d of %d", each + 1, n)
        found.append(await half(each))
        print("so far:", found)
    if log.isEnabledFor(logging.CRITICAL):
        log.debug("done")
    return found
