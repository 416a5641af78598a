"""What programs share: how they are declared, a few actions, and classes that they use."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from lope import action
from lope.decorators import Workflow, workflow


@dataclass
class Program:
    name: str
    workflow: Workflow[..., Any]
    cases: list[tuple[Any, ...]]
    signals: dict[str, list[Any]]


PROGRAMS: list[Program] = []


def program(*cases: tuple[Any, ...], signals: Optional[dict[str, list[Any]]] = None) -> Callable[[Any], Any]:
    """A workflow that is run once for each of the cases."""

    def make(target: Any) -> Any:
        name = f"{target.__module__.rpartition('.')[2]}.{target.__name__}"
        made: Workflow[..., Any] = workflow(name=name)(target)
        PROGRAMS.append(Program(name, made, list(cases) or [()], signals or {}))
        return made

    return make


class AppError(Exception):
    pass


class NotFound(AppError):
    pass


class Coded(AppError):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Item:
    name: str
    price: float
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    id: int
    items: list[Item]
    colour: Colour = Colour.RED
    note: Optional[str] = None


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@action
async def add(a: int, b: int = 1) -> int:
    return a + b


@action
async def echo(value: Any) -> Any:
    return value


@action
def double(x: int) -> int:
    return x * 2


@action
async def fail(kind: str, message: str = "no") -> None:
    kinds: dict[str, type[Exception]] = {
        "value": ValueError, "key": KeyError, "app": AppError, "notfound": NotFound, "zero": ZeroDivisionError,
        "runtime": RuntimeError,
    }  # fmt: skip
    raise kinds[kind](message)


@action
async def coded(code: int) -> None:
    raise Coded(code)


@action
async def maybe(x: int) -> int:
    if x % 2:
        raise ValueError(f"odd {x}")
    return x


@action
async def price(item: Item) -> float:
    return item.price


@action
async def make_order(id: int) -> Order:
    return Order(id, [Item("a", 1.5), Item("b", 2.0, ["x"])])


@action
async def total(*numbers: int, factor: int = 1) -> int:
    return sum(numbers) * factor


@action
async def describe(name: str, *, loud: bool = False) -> str:
    return name.upper() if loud else name
