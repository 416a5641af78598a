"""Expressions as definitions hold them: instructions in postfix order, with the place of each in the source."""

from __future__ import annotations

import ast
from typing import Any

from ..values.encode import encode
from ..values.wire import _plain

At = tuple[int, int]


class Code:
    """A tree of instructions."""

    __slots__ = ("at", "instructions")

    def __init__(self, instructions: list[Any], at: list[int]) -> None:
        self.instructions = instructions
        self.at = at

    def to_json(self) -> dict[str, Any]:
        return {"code": self.instructions, "at": self.at}


def place(node: ast.AST | None) -> At:
    line = getattr(node, "lineno", 0)
    return (line, getattr(node, "col_offset", 0) + 1) if line else (0, 0)


def literal(value: Any, at: At = (0, 0)) -> Code:
    """A Python value that is known when the workflow is compiled."""
    encoded = _plain(encode(value, "constant"))
    return Code([["lit", encoded] if isinstance(encoded, list) else encoded], [*at])


def name(text: str, at: At = (0, 0)) -> Code:
    return Code([["name", text]], [*at])


def op(instruction: list[Any], *operands: Code, at: At = (0, 0)) -> Code:
    instructions: list[Any] = []
    places: list[int] = []
    for each in operands:
        instructions += each.instructions
        places += each.at
    return Code([*instructions, instruction], [*places, *at])


def text_map(entries: list[tuple[str, Code]], at: At = (0, 0)) -> Code:
    operands = [part for key, value in entries for part in (literal(key), value)]
    return op(["map", len(entries)], *operands, at=at)


def listed(items: list[Code], at: At = (0, 0)) -> Code:
    return op(["list", len(items)], *items, at=at)
