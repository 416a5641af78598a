"""Paths: what stands left of an assignment or before a method that changes something, as `self.orders[i].items`.

Values have no identity here: a part is changed by replacing the variable at the root with a changed whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from . import code
from .code import At, Code, call, literal, op


@dataclass
class Part:
    """A step down the path: an attribute, an index or a slice."""

    kind: str
    operands: list[Code]
    at: At


@dataclass
class Path:
    """A variable and a way into it. Without a variable it is a value that nobody else sees."""

    root: Optional[str]
    start: Code
    parts: list[Part] = field(default_factory=list)

    def read(self, depth: Optional[int] = None) -> Code:
        value = self.start
        for part in self.parts[:depth]:
            if part.kind == "slice":
                value = call("py.slice", value, *part.operands, at=part.at)
            else:
                value = op(["py.attr" if part.kind == "attr" else "py.index"], value, *part.operands, at=part.at)
        return value

    def written(self, value: Code) -> Code:
        """The root with the part at the end of the path replaced."""
        for depth in range(len(self.parts) - 1, -1, -1):
            part, whole = self.parts[depth], self.read(depth)
            if part.kind == "slice":
                value = call("py.set_slice", whole, value, *part.operands, at=part.at)
            else:
                word = "py.set_attr" if part.kind == "attr" else "py.set_item"
                value = call(word, whole, *part.operands, value, at=part.at)
        return value


def attribute(name: str, at: At) -> Part:
    return Part("attr", [literal(name)], at)


def variable(text: str) -> Path:
    return Path(text, code.name(text))
