"""Changes: what an expression changes, and the refusal of a change that another variable in use would see."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from ..effects import is_self, is_super, own_nodes, quiet_static
from ..table import METHODS
from .origins import Origins
from .shapes import in_order, kept_names_at, path_of, plain_names
from .sharing import CALLER, DEPTH_MAX, RETURNED, Source, copied, meet

_CAPTURES = {"append", "insert", "add", "setdefault"}
_SPREADS = {"extend", "update"}


@dataclass
class Changes(Origins):
    """The changes of one function."""

    loops: list[ast.AST] = field(default_factory=list)
    iterated: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        node = self.frame.unit.node
        self.loads: dict[str, list[tuple[int, int]]] = {}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                self.loads.setdefault(each.id, []).append((each.lineno, each.col_offset))
        inner = [each for each in own_nodes(node) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self.always = {each.id for one in inner for each in ast.walk(one) if isinstance(each, ast.Name)}
        self.plain = plain_names(node)

    def change(self, node: ast.AST, name: str, keys: Sequence[Any]) -> None:
        """The value of a variable is changed, so many parts down."""
        depth, key = len(keys), keys[0] if keys else None
        for kind, a, b, at, d in sorted(self.state.edges, key=str):
            if kind == "same" and a == name and self.live(b, node):
                self.clash(node, name, b, f"'{name}' and {spoken(b)} may be the same value")
            if kind == "holds" and b == name and self.live(a, node):
                self.clash(node, name, a, f"'{name}' is part of {spoken(a)}")
            if a != name or depth < d or not meet(at, key):
                continue
            if kind == "holds" and self.live(b, node):
                self.clash(node, name, b, f"{spoken(b)} is part of '{name}'")
            if kind == "deep" and (b == name or self.live(b, node)):
                other = "itself" if b == name else spoken(b)
                self.clash(node, name, b, f"'{name}' shares parts with {other}")

    def clash(self, node: ast.AST, name: str, other: str, why: str) -> None:
        if other == CALLER:
            advice = f"change a copy and return it: {name} = list({name}), or {{**{name}}}"
        elif other == RETURNED:
            advice = "return after the change, or return a copy"
        else:
            advice = f"change it through one name only, or make a copy: list({name}), {{**{name}}}, {name}.copy()"
        self.frame.refuse(node, f"a change that another name would not see: {why}", advice)

    def live(self, name: str, node: ast.AST) -> bool:
        """May a variable still be read after this?"""
        if name in (CALLER, RETURNED) or name in self.always or name == self.frame.self_name:
            return True
        end = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
        loads = self.loads.get(name, [])
        if any(place >= end for place in loads):
            return True
        if not self.loops:
            return False
        first, last = self.loops[0].lineno, self.loops[0].end_lineno  # type: ignore[attr-defined]
        return any(first <= line <= last for line, _ in loads)

    def effects(self, node: Optional[ast.AST]) -> None:
        """What the expressions of a statement change, in the order in which they do."""
        if node is None:
            return
        calls = [each for each in in_order(node) if isinstance(each, ast.Call)]
        for each in calls:
            self.call(each, node)
        for named in in_order(node):
            if isinstance(named, ast.NamedExpr):
                self.bind(named.target.id, self.sources(named.value), self.is_scalar(named.value))

    def call(self, node: ast.Call, whole: ast.AST) -> None:
        function = node.func
        if not isinstance(function, ast.Attribute):
            return
        own = self.frame.self_name
        if own is not None and (is_self(function.value, self.frame) or is_super(function.value)):
            if self.frame.method_changes_self(function):
                self.change(node, own, [None] * DEPTH_MAX)
                for argument in self.frame.kept_by_self(node, function):
                    self.capture(own, self.sources(argument), None, 1)
            return
        kind = METHODS.get(function.attr, ("M",))[0]
        if kind == "M" or quiet_static(function, self.frame) is not None:
            return
        root, keys = path_of(function.value)
        if root is None or not self.frame.is_local(root):
            return
        self.kept_before(node, root, whole)
        self.not_iterated(function.value, node)
        self.change(node, root, keys)
        if function.attr in _CAPTURES:
            for argument in node.args[-1:]:
                self.not_itself(root, self.sources(argument), node)
                self.capture(root, self.sources(argument), keys[0] if keys else None, len(keys) + 1)
        elif function.attr in _SPREADS:
            for argument in node.args:
                shared = [copied(each) for each in self.sources(argument)]
                self.capture(root, shared, None, len(keys))

    def kept_before(self, node: ast.Call, root: str, whole: ast.AST) -> None:
        """`(xs, xs.pop())`: the value stands on the left already, and Python would show the change there."""
        for each in kept_names_at(whole):
            if each.id == root and (each.lineno, each.col_offset) < (node.lineno, node.col_offset):
                if isinstance(each.ctx, ast.Load):
                    self.clash(node, root, root, f"'{root}' was used before in the same statement")

    def not_itself(self, root: str, sources: Sequence[Source], node: ast.AST) -> None:
        for how, other, _, _ in sources:
            around = any(edge[0] in ("same", "holds") and edge[1:3] == (other, root) for edge in self.state.edges)
            if how in ("same", "contain") and (other == root or around) and root not in self.state.scalars:
                self.frame.refuse(node, f"'{root}' would hold itself", f"put a copy into it: list({root})")

    def not_iterated(self, target: ast.expr, node: ast.AST) -> None:
        if ast.unparse(target) in self.iterated:
            self.frame.refuse(
                node,
                f"'{ast.unparse(target)}' is changed while a loop goes over it",
                f"go over a copy: for … in list({ast.unparse(target)})",
            )


def spoken(name: str) -> str:
    return name if name in (CALLER, RETURNED) else f"'{name}'"
