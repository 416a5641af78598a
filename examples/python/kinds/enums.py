"""Enums of every kind: members are one, ints are ints, flags are combined, and they cross to actions and back.

    lope run examples/python/kinds/enums.py:states --input '{"steps": ["PAY", "SHIP"]}'
"""

from __future__ import annotations

import enum

from lope import action, workflow


class State(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SENT = "sent"

    @property
    def final(self) -> bool:
        return self is State.SENT


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


NEXT = {("PAY", State.NEW): State.PAID, ("SHIP", State.PAID): State.SENT}


@action
async def follow(state: State, step: str) -> State:
    return NEXT[step, state]


@workflow
async def states(steps: list[str]) -> dict[str, object]:
    state, seen = State.NEW, [State.NEW]
    rights = Right.READ
    for step in steps:
        state = await follow(state, step)
        seen.append(state)
        if state.final:
            rights |= Right.WRITE
    return {
        "seen": [each.name for each in seen],
        "one": state is State(state.value),
        "sum": Level.HIGH + len(seen),
        "int": isinstance(Level.LOW, int) and Level.LOW < Level.HIGH,
        "write": bool(rights & Right.WRITE),
        "counts": {each: seen.count(each) for each in State}[State.PAID],
    }
