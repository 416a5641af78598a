"""What values are made of: the variables that an expression hands on, as they are, by their parts, or inside of something."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from ..effects import is_self, is_super, quiet_static
from ..table import METHODS
from .shapes import is_constant, kept_names, key_of
from .sharing import Sharing, Source, copied, put_inside

if TYPE_CHECKING:
    from ..frame import Frame

_SCALAR_CALLS = {"len", "sum", "int", "float", "str", "bool", "abs", "round", "any", "all", "repr", "ord", "chr", "hex",
                 "oct", "bin", "isinstance", "hasattr", "format", "range", "divmod", "pow"}  # fmt: skip
COPIES = {"list", "tuple", "set", "dict", "sorted", "reversed", "enumerate", "zip"}
PARTS = {"get", "pop", "setdefault", "popitem"}
SHARES = {"copy", "keys", "values", "items", "union", "intersection", "difference", "symmetric_difference"}


@dataclass
class Origins(Sharing):
    """The expressions of one function."""

    frame: "Frame"

    def sources(self, node: Optional[ast.AST]) -> list[Source]:
        if node is None or self.is_scalar(node):
            return []
        if isinstance(node, ast.Name):
            return [("same", node.id, None, 0)] if self.frame.is_local(node.id) or node.id in self.bound() else []
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return self.part_sources(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [put_inside(each) for item in node.elts for each in self.sources(item)]
        if isinstance(node, ast.Dict):
            return [put_inside(each) for item in node.values for each in self.sources(item)]
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self.comprehension_sources(node)
        if isinstance(node, ast.IfExp):
            return [*self.sources(node.body), *self.sources(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [each for value in node.values for each in self.sources(value)]
        if isinstance(node, (ast.Starred, ast.Await, ast.NamedExpr, ast.FormattedValue)):
            return self.awaited_sources(node.value) if isinstance(node, ast.Await) else self.sources(node.value)
        if isinstance(node, ast.BinOp):
            return [copied(each) for side in (node.left, node.right) for each in self.sources(side)]
        return self.call_sources(node) if isinstance(node, ast.Call) else []

    def bound(self) -> set[str]:
        return set(self.frame.bound)

    def part_sources(self, node: ast.Attribute | ast.Subscript) -> list[Source]:
        keys: list[Any] = []
        whole: ast.expr = node
        sliced = False
        while isinstance(whole, (ast.Attribute, ast.Subscript)):
            sliced = sliced or (isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Slice))
            keys.append(key_of(whole))
            whole = whole.value
        if sliced:
            return [copied(each) for each in self.sources(whole)]
        return [
            ("part", each[1], keys[-1] if each[0] == "same" else each[2], len(keys) if each[0] == "same" else 1)
            for each in self.sources(whole)
        ]

    def comprehension_sources(self, node: Any) -> list[Source]:
        """The parts of what is gone over, if they are kept as they are."""
        targets = {each.id for one in node.generators for each in ast.walk(one.target) if isinstance(each, ast.Name)}
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        kept = [each for value in values for each in kept_names(value)]
        found: list[Source] = []
        wrapped = 2 if isinstance(values[-1], (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Call)) else 1
        if any(name in targets for name in kept):
            for one in node.generators:
                found += [("share", each[1], None, wrapped) for each in self.sources(one.iter)]
        return found + [("share", name, None, wrapped) for name in kept if name not in targets and self.frame.is_local(name)]

    def call_sources(self, node: ast.Call) -> list[Source]:
        function = node.func
        arguments = [*node.args, *(each.value for each in node.keywords)]
        mine = [each for argument in arguments for each in self.sources(argument)]
        if isinstance(function, ast.Attribute) and quiet_static(function, self.frame) is None:
            if is_self(function.value, self.frame) or is_super(function.value):
                return mine
            if function.attr in PARTS:
                return [("part", each[1], None, 1) for each in self.sources(function.value)] + mine
            if function.attr in SHARES:
                return [copied(each) for each in (*self.sources(function.value), *mine)]
            return []
        if isinstance(function, ast.Name) and not self.frame.is_local(function.id):
            if function.id in COPIES:
                return [copied(each) for each in mine]
            if function.id in ("min", "max", "getattr"):
                return [("part", each[1], None, 1) for each in mine]
        found = quiet_static(function, self.frame)
        if isinstance(found, type):
            return [put_inside(each) for each in mine]
        if (getattr(found, "__module__", None) or "").startswith(("lope", "asyncio")):
            return []
        answer = self.frame.answer_of(node)
        if answer == "fresh":
            return []
        if answer == "share":
            return [("share", each[1], None, 1) for each in mine]
        return [(how, each[1], None, 1) for each in mine for how in ("same", "part")]

    def awaited_sources(self, node: ast.AST) -> list[Source]:
        if isinstance(node, ast.Call):
            return self.call_sources(node) if self.frame.is_helper_call(node) else []
        return []

    def is_scalar(self, node: ast.AST) -> bool:
        """Can nothing of this value be changed?"""
        if isinstance(node, (ast.Constant, ast.Compare, ast.JoinedStr, ast.Lambda)):
            return True
        if isinstance(node, ast.UnaryOp):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.state.scalars
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)):
                return True
            both = self.is_scalar(node.left) and self.is_scalar(node.right)
            either = self.is_scalar(node.left) or self.is_scalar(node.right)
            return both or (either and isinstance(node.op, (ast.Add, ast.Sub)))
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and not self.frame.is_local(function.id):
                return function.id in _SCALAR_CALLS
            if isinstance(function, ast.Attribute) and quiet_static(function, self.frame) is None:
                known = METHODS.get(function.attr)
                return known is not None and known[0] == "M" and function.attr not in PARTS | SHARES
        return False

    def is_flat(self, node: ast.AST) -> bool:
        """Can nothing of its parts be changed?"""
        if isinstance(node, ast.Name):
            return node.id in self.state.flats or node.id in self.state.scalars
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return all(self.is_scalar(each) or is_constant(each) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(self.is_scalar(each) for each in node.values)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.is_scalar(node.elt)
        if isinstance(node, ast.DictComp):
            return self.is_scalar(node.value)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.is_flat(node.value)
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in ("range", *COPIES):
                return all(self.is_flat(each) for each in node.args)
            if isinstance(function, ast.Attribute) and quiet_static(function, self.frame) is None:
                if function.attr in ("split", "rsplit", "splitlines", "partition", "rpartition"):
                    return True
                return function.attr in ("copy", "keys", "values", "items") and self.is_flat(function.value)
        return self.is_scalar(node)
