"""Expressions: what has no effects becomes a tree, what has some becomes steps before it, in Python's order."""

from __future__ import annotations

import ast
import enum
import types
from typing import Any, Callable, Optional, Sequence

from . import code
from .code import Code, call, listed, literal, op, truth
from .comprehensions import Comprehensions
from .effects import is_property
from .frame import MISSING
from .table import VIEWS

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "py.add", ast.Sub: "py.sub", ast.Mult: "py.mul", ast.Div: "py.truediv", ast.FloorDiv: "py.floordiv",
    ast.Mod: "py.mod", ast.Pow: "py.pow", ast.BitAnd: "py.bitand", ast.BitOr: "py.bitor", ast.BitXor: "py.bitxor",
    ast.LShift: "py.shl", ast.RShift: "py.shr",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {
    ast.Not: "py.not", ast.USub: "py.neg", ast.UAdd: "py.pos", ast.Invert: "py.invert",
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "py.eq", ast.NotEq: "py.ne", ast.Lt: "py.lt", ast.LtE: "py.le", ast.Gt: "py.gt", ast.GtE: "py.ge",
    ast.In: "py.in", ast.NotIn: "py.not_in", ast.Is: "py.is", ast.IsNot: "py.is_not",
}  # fmt: skip
SINGLETONS = (None, True, False)


class Expressions(Comprehensions):
    def expr(self, node: ast.expr, consumed: bool = False) -> Code:
        """The value of an expression. `consumed`: whoever asks goes over it once and keeps nothing of it."""
        if isinstance(node, ast.Call):
            return self.call_value(node, consumed)
        if isinstance(node, ast.GeneratorExp):
            if not consumed:
                self.refuse(node, "a generator can be gone over only once", "make a list: [… for … in …]")
            return self.comprehension(node)
        compile: Optional[Callable[[Any], Code]] = getattr(self, f"_{type(node).__name__}", None)
        if compile is None:
            return self.no_expression(node)
        return compile(node)

    def no_expression(self, node: ast.expr) -> Code:
        if isinstance(node, ast.Lambda):
            self.refuse(node, "a lambda outside of key=", "write a function at the top of the module and call it")
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            self.refuse(node, "a workflow cannot yield", "collect the values in a list and return it")
        if isinstance(node, ast.Starred):
            self.refuse(node, "a starred expression has no place here", "use it in a call, a list or an assignment")
        self.refuse(node, f"{type(node).__name__} is not supported", "do it in an @action")

    def operands(self, nodes: Sequence[ast.expr], consumed: bool = False) -> list[Code]:
        """Several expressions in order. What stands before one that has effects is computed before it."""
        last = max((place for place, node in enumerate(nodes) if self.effects(node)), default=-1)
        found = []
        for place, node in enumerate(nodes):
            value = self.expr(node, consumed)
            if place < last and not value.is_literal:
                value = self.let(value, node)
            found.append(value)
        return found

    def _Constant(self, node: ast.Constant) -> Code:
        value = node.value
        if value is Ellipsis or isinstance(value, complex):
            self.refuse(node, f"the constant {value!r} is not supported", "use numbers, text, bytes, True, False or None")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.refuse(node, "an integer of more than 64 bits", "use a float, or compute with it in an @action")
        return literal(value, self.at(node))

    def _Name(self, node: ast.Name) -> Code:
        if node.id in self.bound:
            return code.name(self.bound[node.id], self.at(node))
        if node.id in self.nested:
            self.refuse(node, f"the function '{node.id}' is used as a value", "call it here; functions are not values")
        if node.id in self.locals:
            return code.name(self.variable(node.id), self.at(node))
        return self.constant(self.static(node), node)

    def _Attribute(self, node: ast.Attribute) -> Code:
        if node.attr == "__name__" and (name := self.type_name(node.value)) is not None:
            return name
        found = self.static(node)
        if found is not MISSING:
            if isinstance(found, types.MemberDescriptorType):
                self.refuse(node, f"'{node.attr}' of a class is no value", "use it on an object")
            return self.constant(found, node)
        if node.attr.startswith("__"):
            self.refuse(node, f"the attribute '{node.attr}' is not supported", "use ordinary attributes")
        if is_property(node, self):
            return self.property_value(node)
        whole = self.static(node.value)
        if whole is not MISSING and not isinstance(whole, type) and hasattr(whole, node.attr):
            value = getattr(whole, node.attr)
            if not callable(value):
                return self.constant(value, node)
        return op(["py.attr"], self.expr(node.value), literal(node.attr), at=self.at(node))

    def property_value(self, node: ast.Attribute) -> Code:
        raise NotImplementedError

    def type_name(self, node: ast.expr) -> Optional[Code]:
        """`type(x).__name__` and `x.__class__.__name__`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
            if not self.is_local("type") and len(node.args) == 1 and not node.keywords:
                return call("py.type_name", self.expr(node.args[0]), at=self.at(node))
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return call("py.type_name", self.expr(node.value), at=self.at(node))
        return None

    def _Subscript(self, node: ast.Subscript) -> Code:
        found = self.static(node.value)
        if isinstance(found, type) and issubclass(found, enum.Enum):
            return self.enum_by_name(found, node)
        if isinstance(node.slice, ast.Slice):
            bounds = [each or ast.Constant(None) for each in (node.slice.lower, node.slice.upper, node.slice.step)]
            return call("py.slice", *self.operands([node.value, *bounds]), at=self.at(node))
        if isinstance(node.slice, ast.Tuple) and any(isinstance(each, ast.Slice) for each in node.slice.elts):
            self.refuse(node, "a slice in several dimensions", "do it in an @action")
        return op(["py.index"], *self.operands([node.value, node.slice]), at=self.at(node))

    def enum_by_name(self, found: type[enum.Enum], node: ast.Subscript) -> Code:
        members = literal({name: member for name, member in found.__members__.items()})
        return op(["py.index"], members, self.expr(node.slice), at=self.at(node))

    def _BinOp(self, node: ast.BinOp) -> Code:
        word = BINARY.get(type(node.op))
        if word is None:
            self.refuse(node, f"the operator {type(node.op).__name__} is not supported", "do it in an @action")
        return op([word], *self.operands([node.left, node.right]), at=self.at(node))

    def _UnaryOp(self, node: ast.UnaryOp) -> Code:
        operand = node.operand
        if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
            number = operand.value
            if isinstance(number, float) or (type(number) is int and number <= 2**63):
                return literal(-number, self.at(node))
        return op([UNARY[type(node.op)]], self.expr(operand), at=self.at(node))

    def _BoolOp(self, node: ast.BoolOp) -> Code:
        word = "py.and" if isinstance(node.op, ast.And) else "py.or"
        if not any(self.effects(each) for each in node.values[1:]):
            operands = [self.expr(each) for each in node.values]
            return op([word, len(operands)], *operands, at=self.at(node))
        target = self.program.fresh("t")
        self.let(self.expr(node.values[0]), node, target)
        self._rest(node, word, node.values[1:], target)
        return code.name(target, self.at(node))

    def _rest(self, node: ast.BoolOp, word: str, values: Sequence[ast.expr], target: str) -> None:
        """The later operands of and/or, each computed only if the ones before do not decide."""
        goes_on = truth(code.name(target)) if word == "py.and" else op(["py.not"], code.name(target))
        with self.inside(self.program.block()) as then:
            self.let(self.expr(values[0]), values[0], target)
            if len(values) > 1:
                self._rest(node, word, values[1:], target)
        self.emit({"if": {"when": goes_on.to_json(), "then": then.number}}, f"if-{node.lineno}", node)

    def _IfExp(self, node: ast.IfExp) -> Code:
        if not self.effects(node.body) and not self.effects(node.orelse):
            condition = truth(self.expr(node.test), self.at(node.test))
            return op(["if"], condition, self.expr(node.body), self.expr(node.orelse), at=self.at(node))
        target = self.program.fresh("t")
        condition = truth(self.expr(node.test), self.at(node.test))
        blocks = []
        for branch in (node.body, node.orelse):
            with self.inside(self.program.block()) as block:
                self.let(self.expr(branch), branch, target)
            blocks.append(block.number)
        kind = {"if": {"when": condition.to_json(), "then": blocks[0], "otherwise": blocks[1]}}
        self.emit(kind, f"if-{node.lineno}", node)
        return code.name(target, self.at(node))

    def _Compare(self, node: ast.Compare) -> Code:
        words = [self.comparison(node, place) for place in range(len(node.ops))]
        nodes = [node.left, *node.comparators]
        if len(words) == 1:
            left, right = self.operands_of_comparison(nodes, words)
            return op([words[0]], left, right, at=self.at(node))
        if any(self.effects(each) for each in node.comparators[1:]):
            return self.chain_by_steps(node, nodes, words)
        return op(["chain", *words], *self.operands_of_comparison(nodes, words), at=self.at(node))

    def operands_of_comparison(self, nodes: list[ast.expr], words: list[str]) -> list[Code]:
        """The right side of `in` is only looked through, so that an iterator may stand there."""
        if len(nodes) == 2 and words[0] in ("py.in", "py.not_in") and not any(self.effects(each) for each in nodes):
            return [self.expr(nodes[0]), self.expr(nodes[1], consumed=True)]
        return self.operands(nodes)

    def comparison(self, node: ast.Compare, place: int) -> str:
        """The word for an operator. Identity is only known of None, True, False and members of enums."""
        operator = node.ops[place]
        word = COMPARE[type(operator)]
        if isinstance(operator, (ast.Is, ast.IsNot)):
            sides = [[node.left, *node.comparators][place], node.comparators[place]]
            values = [self.static(side) for side in sides]
            if any(isinstance(value, enum.Enum) for value in values):
                return "py.eq" if word == "py.is" else "py.ne"
            known = [side for side in sides if isinstance(side, ast.Constant) and side.value in SINGLETONS]
            if not any(side.value is None or isinstance(side.value, bool) for side in known):
                self.refuse(node, "'is' between values", "compare with ==; identity is kept only of None, True and False")
        return word

    def chain_by_steps(self, node: ast.Compare, nodes: list[ast.expr], words: list[str]) -> Code:
        """`a < await b() < await c()`: each operand once, and only if the comparison before it holds."""
        target = self.program.fresh("t")
        left, right = self.operands(nodes[:2])
        right = self.let(right, node)
        self.let(op([words[0]], left, right), node, target)
        self._links(node, nodes[2:], words[1:], right, target)
        return code.name(target, self.at(node))

    def _links(self, node: ast.Compare, nodes: list[ast.expr], words: list[str], left: Code, target: str) -> None:
        with self.inside(self.program.block()) as then:
            right = self.let(self.expr(nodes[0]), nodes[0])
            self.let(op([words[0]], left, right), node, target)
            if len(nodes) > 1:
                self._links(node, nodes[1:], words[1:], right, target)
        self.emit({"if": {"when": truth(code.name(target)).to_json(), "then": then.number}}, f"if-{node.lineno}", node)

    def _JoinedStr(self, node: ast.JoinedStr) -> Code:
        values = [each for each in node.values]
        inner = [each.value if isinstance(each, ast.FormattedValue) else each for each in values]
        specs = [each.format_spec for each in values if isinstance(each, ast.FormattedValue) and each.format_spec]
        if any(self.effects(each) for each in specs):
            self.refuse(node, "an await inside a format spec", "compute the width before, in a variable")
        parts = []
        for each, value in zip(values, self.operands(inner)):
            parts.append(self.formatted(each, value) if isinstance(each, ast.FormattedValue) else value)
        return op(["text", len(parts)], *parts, at=self.at(node)) if parts else literal("", self.at(node))

    def formatted(self, node: ast.FormattedValue, value: Code) -> Code:
        if node.conversion == ord("r"):
            value = call("py.repr", value, at=self.at(node))
        elif node.conversion == ord("s"):
            value = call("py.str", value, at=self.at(node))
        elif node.conversion == ord("a"):
            self.refuse(node, "!a in an f-string", "use !r")
        if node.format_spec is None:
            return call("py.format", value, at=self.at(node))
        return call("py.format", value, self.expr(node.format_spec), at=self.at(node))

    def _List(self, node: ast.List) -> Code:
        return self.sequence(node, "list")

    def _Tuple(self, node: ast.Tuple) -> Code:
        return self.sequence(node, "tuple")

    def _Set(self, node: ast.Set) -> Code:
        return self.sequence(node, "set")

    def sequence(self, node: ast.List | ast.Tuple | ast.Set, kind: str) -> Code:
        starred = [isinstance(each, ast.Starred) for each in node.elts]
        inner = [each.value if isinstance(each, ast.Starred) else each for each in node.elts]
        items = self.operands_starred(inner, starred)
        at = self.at(node)
        if not any(starred):
            plain = {"list": lambda: listed(items, at), "tuple": lambda: call("py.tuple_of", *items, at=at),
                     "set": lambda: call("py.set_of", *items, at=at)}  # fmt: skip
            return plain[kind]()
        whole = self.concatenated(items, starred, node)
        return whole if kind == "list" else call(f"py.{kind}", whole, at=at)

    def operands_starred(self, nodes: Sequence[ast.expr], starred: Sequence[bool]) -> list[Code]:
        if any(self.effects(each) for each in nodes):
            return self.operands(nodes)
        return [self.expr(each, consumed=star) for each, star in zip(nodes, starred)]

    def concatenated(self, items: Sequence[Code], starred: Sequence[bool], node: ast.AST) -> Code:
        """A list of items, some of which are several."""
        parts = [each if star else listed([each]) for each, star in zip(items, starred)]
        return call("py.concat", *parts, at=self.at(node))

    def _Dict(self, node: ast.Dict) -> Code:
        at = self.at(node)
        flat: list[ast.expr] = []
        for key, value in zip(node.keys, node.values):
            flat += [value] if key is None else [key, value]
        parts = iter(self.operands(flat))
        if all(key is not None for key in node.keys):
            return call("py.dict_of", *parts, at=at)
        merged = [next(parts) if key is None else call("py.dict_of", next(parts), next(parts)) for key in node.keys]
        return call("py.merge", *merged, at=at)

    def _NamedExpr(self, node: ast.NamedExpr) -> Code:
        if self.bound:
            self.refuse(node, "':=' inside a comprehension", "compute it in the loop of a for statement")
        self.let(self.expr(node.value), node, self.variable(node.target.id))
        return self.let(code.name(self.variable(node.target.id)), node)

    def _Await(self, node: ast.Await) -> Code:
        return self.awaited(node.value)


def is_view(node: ast.expr) -> bool:
    """Is it `d.keys()`, `d.values()` or `d.items()`?"""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS
