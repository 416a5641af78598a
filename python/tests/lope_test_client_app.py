"""Workflows for the tests of the client."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

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
