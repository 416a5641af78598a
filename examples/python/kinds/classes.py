"""A workflow as a class: state in attributes, helpers as methods, a base class.

    lope run examples/python/kinds/classes.py:Stock --input '{"moves": [["pen", 5], ["pen", -2], ["cap", -1]]}'
"""

from __future__ import annotations

from lope import action, workflow


@action
async def refill(item: str, least: int) -> int:
    return max(least, 10)


class Ledger:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> "Ledger":
        self.lines.append(f"{len(self.lines) + 1}. {text}")
        return self


@workflow
class Stock(Ledger):
    least = 1

    def __init__(self) -> None:
        super().__init__()
        self.stock: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.stock.values())

    async def move(self, item: str, count: int) -> None:
        have = self.stock.setdefault(item, 0)
        if have + count < 0:
            self.stock[item] += await refill(item, self.least - have - count)
            self.note(f"refilled {item}")
        self.stock[item] += count
        self.note(f"{item} {count:+d}")

    async def run(self, moves: list[tuple[str, int]]) -> dict[str, object]:
        for item, count in moves:
            await self.move(item, count)
        return {"stock": self.stock, "total": self.total, "lines": self.note("end").lines}
