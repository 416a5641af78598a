"""Blocks and steps while a definition is made: a step follows the one before it, names are unique in their block."""

from __future__ import annotations

import ast
from typing import Any, Iterator, Optional

from .code import Code, literal, place


class Block:
    """Steps in the order of the source."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.steps: list[dict[str, Any]] = []
        self.collect: Optional[Code] = None
        self.parameters: Optional[list[str]] = None
        self.names: dict[str, int] = {}
        # The steps that the next one follows.
        self.last: list[str] = []
        # Nothing comes after a step that leaves the block.
        self.left = False

    def unique(self, wanted: str) -> str:
        count = self.names[wanted] = self.names.get(wanted, 0) + 1
        return wanted if count == 1 else f"{wanted}-{count}"

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"steps": self.steps}
        if self.collect is not None:
            found["collect"] = self.collect.to_json()
        if self.parameters is not None:
            found["parameters"] = self.parameters
        return found


class Program:
    """The definition of one workflow while it is made."""

    def __init__(self, name: str, file: str, shown: str) -> None:
        self.name = name
        self.file = file
        # The file as definitions name it: without the folders that differ from machine to machine.
        self.shown = shown
        self.blocks: list[Block] = []
        self.counters: dict[str, int] = {}
        # Other workflows that this one starts.
        self.children: dict[str, Any] = {}
        self.actions: set[str] = set()

    def block(self) -> Block:
        made = Block(len(self.blocks))
        self.blocks.append(made)
        return made

    def fresh(self, what: str) -> str:
        """A name of a variable that no Python source can have."""
        count = self.counters[what] = self.counters.get(what, 0) + 1
        return f"{what}.{count}"

    def prune(self) -> None:
        """Leaves out blocks that nothing leads to: functions that might have been awaited, and are not."""
        found, waiting = {0}, [0]
        while waiting:
            for holder, key in _leads(self.blocks[waiting.pop()].steps):
                if holder[key] not in found:
                    found.add(holder[key])
                    waiting.append(holder[key])
        kept = [each for each in self.blocks if each.number in found]
        places = {each.number: place for place, each in enumerate(kept)}
        for block in kept:
            block.number = places[block.number]
            for holder, key in list(_leads(block.steps)):
                holder[key] = places[holder[key]]
        self.blocks = kept

    def to_json(self) -> dict[str, Any]:
        return {"law": 1, "name": self.name, "file": self.shown, "blocks": [block.to_json() for block in self.blocks]}


_LEADS = ("block", "then", "otherwise", "finally", "function")


def _leads(steps: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where steps name blocks."""
    for each in steps:
        kind = each["kind"]
        inside = next(iter(kind.values())) if isinstance(kind, dict) else None
        if not isinstance(inside, dict):
            continue
        parts = [inside, *inside.get("cases", ()), *inside.get("handlers", ()), *inside.get("branches", ())]
        yield from ((part, key) for part in parts for key in _LEADS if isinstance(part.get(key), int))


LEAVING = ("return", "raise", "break", "continue")


def step(
    block: Block,
    wanted: str,
    kind: Any,
    *,
    node: Optional[ast.AST] = None,
    to: Optional[str] = None,
    policy: Optional[dict[str, Any]] = None,
    beside: bool = False,
) -> str:
    """Adds a step to a block; one that runs beside the others is not followed by what comes next."""
    name = block.unique(wanted)
    made: dict[str, Any] = {"name": name, "kind": kind}
    if block.last:
        made["follows"] = list(block.last)
    if to is not None:
        made["set"] = to
    if policy:
        made["policy"] = policy
    if node is not None:
        made["at"] = list(place(node))
    block.steps.append(made)
    if not beside:
        block.last = [name]
    word = kind if isinstance(kind, str) else next(iter(kind))
    block.left = block.left or word in LEAVING
    return name


def nothing() -> Code:
    return literal(None)
