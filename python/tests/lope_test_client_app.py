"""Workflows for the tests of the client."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
import uuid
from dataclasses import dataclass
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal

from lope import action, gather, start, start_async, wait_signal, workflow


@dataclass
class User:
    name: str
    at: datetime


class NotLiked(ValueError):
    pass


@action
async def greet(user: User) -> tuple[str, datetime]:
    return (user.name.upper(), user.at + timedelta(days=1))


@action
def refuses(name: str) -> None:
    raise NotLiked(f"not {name}")


@workflow
async def hello(users: list[User]) -> list[tuple[str, datetime]]:
    return await gather(*[greet(user) for user in users])


@workflow
async def fails(name: str) -> None:
    await refuses(name)


@workflow
async def waits(n: int) -> int:
    got = await wait_signal("go")
    return got + n


@action
def stopping() -> None:
    next(iter(()))


@workflow
async def stops() -> None:
    await stopping()


@action
async def same(value: float) -> float:
    return value


@workflow
async def dicey() -> tuple[float, float, str]:
    thrown = random.random()
    made = str(uuid.uuid4())
    echoed = await same(thrown)
    return thrown, echoed, made


@action
async def noted(path: str, n: int) -> Decimal:
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{n}\n")
    return Decimal(n) / 10


async def into(found: dict[str, list[Decimal]], key: str, path: str, n: int) -> None:
    found[key].append(await noted(path, n))


@workflow
async def shared(path: str, rounds: int) -> tuple[dict[str, list[Decimal]], bool, Decimal]:
    found: dict[str, list[Decimal]] = defaultdict(list)
    same = found["even"]
    for n in range(rounds):
        await into(found, "odd" if n % 2 else "even", path, n)
    return dict(found), same is found["even"], sum(same, Decimal())


@action
def crashes(path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("tried\n")
    os.kill(os.getpid(), signal.SIGKILL)


@workflow
async def crashing(path: str) -> None:
    await crashes(path)


@workflow
async def parent(n: int) -> tuple[str, str, list[str]]:
    first = start(waits, n)
    others = [start(waits, each) for each in range(2)]
    await same(1.0)
    last = await start_async(waits, n + 1)
    return first.id, last.id, [each.id for each in others]


@dataclass
class Approval:
    by: str
    approved: bool


@workflow
async def approving() -> Approval:
    return await wait_signal("approved", type=Approval)


@action(concurrency=1)
async def alone(path: str, n: int) -> int:
    """Says how many are at work at once."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("+")
    await asyncio.sleep(0.02)
    with open(path, "a", encoding="utf-8") as file:
        file.write("-")
    return n


@action(rate="2/300ms")
async def slowly(n: int) -> float:
    return time.time()


@workflow
async def limited(path: str) -> tuple[list[int], list[float]]:
    return await gather(*[alone(path, n) for n in range(4)]), await gather(*[slowly(n) for n in range(5)])


@workflow
class Tally:
    def __init__(self) -> None:
        self.total = 0

    async def run(self, numbers: list[int]) -> int:
        for number in numbers:
            self.total += number
        return self.total
