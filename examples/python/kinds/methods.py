"""Models with behaviour: properties, dunders, class methods, methods that return what they hold.

    lope run examples/python/kinds/methods.py:shop --input '{"wanted": ["pen", "cap", "pen"]}'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering
from typing import Iterator

from lope import action, workflow


@total_ordering
@dataclass
class Money:
    cents: int

    @classmethod
    def of(cls, text: str) -> "Money":
        whole, _, part = text.partition(".")
        return cls(int(whole) * 100 + int(part.ljust(2, "0")))

    def __add__(self, other: "Money") -> "Money":
        return Money(self.cents + other.cents)

    def __lt__(self, other: "Money") -> bool:
        return self.cents < other.cents

    def __bool__(self) -> bool:
        return self.cents != 0

    def __str__(self) -> str:
        return f"{self.cents // 100}.{self.cents % 100:02d}"


@dataclass
class Cart:
    prices: dict[str, list[Money]] = field(default_factory=dict)

    def of(self, item: str) -> list[Money]:
        return self.prices.setdefault(item, [])

    def __len__(self) -> int:
        return sum(map(len, self.prices.values()))

    def __iter__(self) -> Iterator[Money]:
        return (price for found in self.prices.values() for price in found)

    def __contains__(self, item: str) -> bool:
        return bool(self.prices.get(item))


@action
async def price_of(item: str) -> Money:
    return Money(len(item) * 55)


@workflow
async def shop(wanted: list[str]) -> dict[str, object]:
    cart = Cart()
    if not cart:
        cart.of("bag").append(Money(0))
    for item in wanted:
        cart.of(item).append(await price_of(item))
    total = sum(cart, Money(0))
    return {
        "total": str(total),
        "free": [str(each) for each in cart if not each],
        "dearest": max(cart).cents,
        "pens": "pen" in cart and len(cart.of("pen")),
        "worth": total >= Money.of("3.5"),
        "size": len(cart),
    }
