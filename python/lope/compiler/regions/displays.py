"""Displays and calls with `*` and `**` in which something is awaited: what Python has unpacked by then is unpacked by then."""

from __future__ import annotations

import ast
from typing import Any, Optional

from ..frame import Frame
from .program import has_await, shallow
from .source import load, store


class Displays(Frame):
    pending: list[ast.stmt]

    def hidden(self) -> str:
        raise NotImplementedError

    def kept(self, node: ast.expr) -> ast.expr:
        raise NotImplementedError

    def lift(self, node: ast.expr) -> ast.expr:
        raise NotImplementedError

    def put(self, name: str, value: ast.expr, node: ast.AST) -> None:
        self.pending.append(store(name, ast.copy_location(value, node), node))

    def lift_display(self, node: Any) -> ast.expr:
        """`[a, *b, await c]`: from the first star on, parts are put into the whole as they come."""
        first = next(index for index, each in enumerate(node.elts) if isinstance(each, ast.Starred))
        last = max(index for index, each in enumerate(node.elts) if has_await(each))
        before: list[ast.expr] = []
        for index, each in enumerate(node.elts[: first + 1]):
            lifted = self.lift(each) if index <= last else each
            before.append(self.kept(lifted) if index < min(last, first) else lifted)
        whole = self.hidden()
        made = shallow(node) if isinstance(node, ast.Set) else ast.List([], ast.Load())
        made.elts = before
        self.put(whole, made, node)
        for index, each in enumerate(node.elts[first + 1 :], first + 1):
            self.join(whole, self.lift(each) if index <= last else each, node)
        return ast.Tuple([_star(whole)], ast.Load()) if isinstance(node, ast.Tuple) else load(whole)

    def join(self, whole: str, each: ast.expr, node: ast.AST) -> None:
        if not isinstance(node, ast.Set):
            self.put(whole, ast.List([_star(whole), each], ast.Load()), node)
            return
        word, value = ("update", each.value) if isinstance(each, ast.Starred) else ("add", each)
        call = ast.Call(ast.Attribute(load(whole), word, ast.Load()), [value], [])
        self.pending.append(ast.copy_location(ast.Expr(ast.copy_location(call, node)), node))

    def lift_dict(self, node: ast.Dict) -> ast.expr:
        """`{a: b, **c, d: await e}`: where a `**` stands, all before it is in the whole."""
        pairs = list(zip(node.keys, node.values))
        last = max(index for index, pair in enumerate(pairs) if any(part is not None and has_await(part) for part in pair))
        parts: list[tuple[Optional[ast.expr], ast.expr]] = []
        for index, (key, value) in enumerate(pairs[: last + 1]):
            if key is not None:
                key = self.lift(key)
                key = self.kept(key) if index < last or has_await(value) else key
            value = self.lift(value)
            parts.append((key, self.kept(value) if index < last and key is not None else value))
            if key is None and index < last:
                whole = self.hidden()
                self.put(whole, _dict(parts), node)
                parts = [(None, load(whole))]
        return ast.copy_location(_dict([*parts, *pairs[last + 1 :]]), node)

    def with_stars(self, node: ast.Call) -> Any:
        """`f(a, *b, await c)`: the arguments are a list that is made as they come. One `*` alone is unpacked by the call."""
        if len(node.args) == 1 or not any(map(has_await, [*node.args, *(each.value for each in node.keywords)])):
            return node
        made = shallow(node)
        made.func = self.kept(self.lift(node.func))
        given = ast.copy_location(ast.List(node.args, ast.Load()), node)
        found: ast.expr = self.lift(given) if has_await(given) else given
        if any(has_await(each.value) for each in node.keywords):
            found = self.kept(found)
        made.args = [ast.copy_location(ast.Starred(found, ast.Load()), node)]
        return made

    def with_maps(self, node: ast.Call) -> Any:
        """`f(**a, b=await c)`: where a `**` stands, all keywords before it are in one dict, and none is there twice."""
        last = max((index for index, each in enumerate(node.keywords) if has_await(each)), default=-1)
        if not any(each.arg is None for each in node.keywords[: max(last, 0)]):
            return node
        made = shallow(node)
        made.func = self.kept(self.lift(node.func))
        made.args = [self.kept(self.lift(each)) for each in node.args]
        keywords: list[ast.keyword] = []
        for index, each in enumerate(node.keywords[: last + 1]):
            value = self.lift(each.value)
            if each.arg is None and index < last:
                whole = self.hidden()
                before = [part for part in keywords if part.arg is None]
                named = [(ast.Constant(part.arg), part.value) for part in keywords if part.arg is not None]
                given = [made.func, *(part.value for part in before), _dict(named), value]
                self.put(whole, ast.Call(ast.Attribute(load("_lope"), "merged", ast.Load()), given, []), node)
                keywords = [ast.keyword(None, load(whole))]
            else:
                keywords.append(ast.keyword(each.arg, self.kept(value) if index < last else value))
        made.keywords = [*keywords, *node.keywords[last + 1 :]]
        return made


def _star(name: str) -> ast.expr:
    return ast.Starred(load(name), ast.Load())


def _dict(pairs: list[Any]) -> ast.Dict:
    return ast.Dict([key for key, _ in pairs], [value for _, value in pairs])
