"""Grouping in every way that people write it: setdefault, defaultdict, groupby, fromkeys, sorting by a key.

    lope run examples/python/kinds/grouping.py:by_customer --input '{"orders": [["ann", 3], ["bob", 5], ["ann", 4]]}'
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import itemgetter

from lope import action, workflow


@action
async def discount(customer: str, amounts: list[int]) -> int:
    return 10 if sum(amounts) > 6 else 0


@workflow
async def by_customer(orders: list[tuple[str, int]]) -> dict[str, object]:
    amounts: dict[str, list[int]] = {}
    for customer, amount in orders:
        amounts.setdefault(customer, []).append(amount)
    discounts = {customer: await discount(customer, found) for customer, found in amounts.items()}
    sizes: defaultdict[bool, list[str]] = defaultdict(list)
    for customer, found in sorted(amounts.items(), key=lambda item: (-len(item[1]), item[0])):
        sizes[len(found) > 1].append(customer)
    runs = [(key, [amount for _, amount in part]) for key, part in groupby(sorted(orders), key=itemgetter(0))]
    fullest = max(amounts, key=lambda customer: sum(amounts[customer]))
    amounts[fullest].append(await discount(fullest, amounts[fullest]))
    return {"amounts": amounts, "discounts": discounts, "several": sizes[True], "single": sizes[False], "runs": runs}
