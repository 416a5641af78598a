"""Comprehensions and generator arguments: loops inside expressions, or real loops if something in them awaits."""

from __future__ import annotations

import ast
from typing import Any, Sequence

from . import code
from .code import Code, call, literal, op, truth
from .frame import Frame

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Comprehensions(Frame):
    def _ListComp(self, node: ast.ListComp) -> Code:
        return self.comprehension(node)

    def _SetComp(self, node: ast.SetComp) -> Code:
        return self.comprehension(node)

    def _DictComp(self, node: ast.DictComp) -> Code:
        return self.comprehension(node)

    def comprehension(self, node: Comprehension) -> Code:
        """The list, set or dict; of a generator, the list of what it gives."""
        for each in node.generators:
            if each.is_async:
                self.refuse(node, "an async for", "await a list from an @action and go over that")
        inside = [part for each in node.generators for part in (each.iter, *each.ifs)][1:]
        body = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        if any(self.effects(each) for each in (*inside, *body)):
            if isinstance(node, ast.GeneratorExp):
                self.refuse(node, "an await inside a generator", "make a list: [… for … in …]")
            return self.comprehension_by_steps(node)
        return self.finished(node, self.loop(node.generators, body, "list", node))

    def finished(self, node: Comprehension, items: Code) -> Code:
        if isinstance(node, ast.SetComp):
            return call("py.set", items, at=self.at(node))
        return call("py.dict", items, at=self.at(node)) if isinstance(node, ast.DictComp) else items

    def loop(self, generators: Sequence[ast.comprehension], body: Sequence[ast.expr], kind: str, node: ast.AST) -> Code:
        """One loop per `for`, the inner ones inside the outer ones."""
        first, *rest = generators
        over = call("py.iter", self.expr(first.iter, consumed=True), at=self.at(first.iter))
        before = dict(self.bound)
        target = self.loop_target(first.target)
        conditions = [truth(self.expr(each), self.at(each)) for each in first.ifs]
        if rest:
            inner = self.loop(rest, body, kind, node)
            kind = "flat" if kind == "list" else kind
        else:
            values = [self.expr(each) for each in body]
            inner = values[0] if len(values) == 1 else call("py.tuple_of", *values)
        self.bound = before
        parts = [over]
        if conditions:
            parts.append(conditions[0] if len(conditions) == 1 else truth(op(["py.and", len(conditions)], *conditions)))
        return op(["each", kind, target, bool(conditions)], *parts, inner, at=self.at(node))

    def loop_target(self, target: ast.expr) -> Any:
        """What a loop binds, under names of its own."""
        if isinstance(target, ast.Name):
            self.bound[target.id] = self.program.fresh(target.id)
            return self.bound[target.id]
        if isinstance(target, ast.Starred) and isinstance(target.value, ast.Name):
            return f"*{self.loop_target(target.value)}"
        if isinstance(target, (ast.Tuple, ast.List)):
            return [self.loop_target(each) for each in target.elts]
        self.refuse(target, "a comprehension binds names", "use a for statement")

    def stops_at(self, word: str, node: ast.GeneratorExp) -> Code:
        """`any(… for …)` and `all(… for …)` look no further than they must."""
        return self.loop(node.generators, [node.elt], word, node)

    def comprehension_by_steps(self, node: Comprehension) -> Code:
        items = self.program.fresh("items")
        self.let(literal([]), node, items)
        before = dict(self.bound)
        self.nested_loops(node, list(node.generators), items)
        self.bound = before
        return self.let(self.finished(node, code.name(items)), node)

    def nested_loops(self, node: Comprehension, generators: list[ast.comprehension], items: str) -> None:
        first, *rest = generators
        over = call("py.iter", self.expr(first.iter, consumed=True), at=self.at(first.iter))
        item = self.program.fresh("item")
        with self.inside(self.program.block()) as body:
            self.bind_target(first.target, code.name(item), node)
            self.conditional(node, first.ifs, rest, items)
        kind = {"each": {"over": over.to_json(), "item": item, "block": body.number}}
        self.emit(kind, f"for-{getattr(node, 'lineno', 0)}", node)

    def conditional(
        self, node: Comprehension, conditions: Sequence[ast.expr], rest: list[ast.comprehension], items: str
    ) -> None:
        if not conditions:
            return self.nested_loops(node, rest, items) if rest else self.add_item(node, items)
        when = truth(self.expr(conditions[0]))
        with self.inside(self.program.block()) as then:
            self.conditional(node, conditions[1:], rest, items)
        self.emit({"if": {"when": when.to_json(), "then": then.number}}, f"if-{conditions[0].lineno}", node)

    def add_item(self, node: Comprehension, items: str) -> None:
        if isinstance(node, ast.DictComp):
            value = call("py.tuple_of", *self.operands([node.key, node.value]))
        else:
            value = self.expr(node.elt)
        self.let(call("py.m.append", code.name(items), value), node, items)

    def operands(self, nodes: Sequence[ast.expr], consumed: bool = False) -> list[Code]:
        raise NotImplementedError

    def bind_target(self, target: ast.expr, value: Code, node: ast.AST) -> None:
        """As `loop_target`, with steps."""
        if isinstance(target, ast.Name):
            self.bound[target.id] = self.program.fresh(target.id)
            self.let(value, node, self.bound[target.id])
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            self.refuse(target, "a comprehension binds names", "use a for statement")
        parts = self.let(self.unpacked(target, value), node)
        for place, each in enumerate(target.elts):
            inner = each.value if isinstance(each, ast.Starred) else each
            self.bind_target(inner, code.item(parts, place), node)

    def unpacked(self, target: ast.Tuple | ast.List, value: Code) -> Code:
        """A list with a value for each part of a target."""
        stars = [place for place, each in enumerate(target.elts) if isinstance(each, ast.Starred)]
        star = [literal(stars[0])] if stars else []
        return call("py.unpack", value, literal(len(target.elts)), *star, at=self.at(target))
