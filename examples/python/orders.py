"""Orders that survive crashes: two actions and a workflow, as a module that a runner loads.

    lope run examples/python/orders.py:fulfil --input '{"order": {"id": "17", "items": [{"sku": "A", "price": 3}]}}'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from lope import Depends, Retry, action, wait_signal, workflow


@dataclass
class Item:
    sku: str
    price: int


@dataclass
class Order:
    id: str
    items: list[Item]


@dataclass
class Receipt:
    order: str
    total: int
    reference: str


class Bank:
    """What talks to the world; one for each call, closed after it."""

    def __init__(self) -> None:
        self.open = True

    def charge(self, order: str, amount: int) -> str:
        return f"{order}-{amount}"


def bank() -> Iterator[Bank]:
    connection = Bank()
    yield connection
    connection.open = False


@action(retry=Retry(5, backoff="exponential", base="200ms"), timeout="20s")
def charge(order: str, amount: int, connection: Bank = Depends(bank)) -> str:
    print(f"charging {amount} for {order}")
    return connection.charge(order, amount)


@action(retry=Retry(5, base="1s"))
async def ship(order: str, sku: str) -> str:
    print(f"shipping {sku}")
    return sku


@workflow
async def fulfil(order: Order) -> Receipt:
    total = sum(item.price for item in order.items)
    if total > 1000:
        approved = await wait_signal("approved", timeout="2d", default=False)
        if not approved:
            return Receipt(order.id, 0, "not approved")
    reference = await charge(order.id, total)
    for item in order.items:
        await ship(order.id, item.sku)
    return Receipt(order.id, total, reference)
