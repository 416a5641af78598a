"""Money is Decimal: rounding, sums and truth are Python's.

    lope run examples/python/kinds/invoices.py:bill --input '{"customer": "Ann"}'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from lope import action, workflow

CENT = Decimal("0.01")


@dataclass
class Line:
    text: str
    count: int
    price: Decimal

    @property
    def total(self) -> Decimal:
        return self.count * self.price


@dataclass
class Invoice:
    customer: str
    lines: list[Line] = field(default_factory=list)
    paid: Decimal = Decimal("0.00")

    def net(self) -> Decimal:
        return sum((line.total for line in self.lines), Decimal())

    def due(self) -> Decimal:
        return self.net() - self.paid


@action
async def ordered(customer: str) -> list[Line]:
    return [Line("pen", 3, Decimal("1.15")), Line("book", 1, Decimal("12.50"))]


@action
async def pay(customer: str, amount: Decimal) -> Decimal:
    return min(amount, Decimal("10"))


@workflow
async def bill(customer: str) -> dict[str, object]:
    invoice = Invoice(customer)
    invoice.lines.extend(await ordered(customer))
    tax = (invoice.net() * Decimal("0.077")).quantize(CENT, ROUND_HALF_UP)
    rounds = 0
    while invoice.due():
        invoice.paid += await pay(customer, invoice.due())
        rounds += 1
    return {"net": invoice.net(), "tax": tax, "rounds": rounds, "settled": invoice.due() == Decimal("0"), "invoice": invoice}
