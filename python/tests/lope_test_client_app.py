"""Workflows for the tests of the client."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal

from lope import action, gather, wait_signal, workflow


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
