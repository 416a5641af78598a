"""Signals with a type: a person decides, and what they send is checked.

    lope run examples/python/kinds/signals.py:expense --input '{"amount": 50}'
"""

from __future__ import annotations

from dataclasses import dataclass

from lope import action, wait_signal, workflow


@dataclass
class Approval:
    by: str
    approved: bool


@action
async def transfer(amount: int, by: str) -> str:
    return f"{amount} by {by}"


@workflow
async def expense(amount: int) -> str:
    if amount <= 100:
        return await transfer(amount, "nobody")
    answer = await wait_signal("approved", type=Approval, timeout="2d", default=Approval("clock", False))
    if not answer.approved:
        return f"refused by {answer.by}"
    return await transfer(amount, answer.by)
