"""Names and their scopes: what an expression takes from outside, other names for some of them, and private names of classes."""

from __future__ import annotations

import ast
import contextlib
from typing import Any, Iterator

from ...region.trees import children, walk

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def target_names(node: Any) -> set[str]:
    """The variables of a comprehension."""
    targets = [each.target for each in node.generators]
    return {part.id for part in walk(*targets) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _own_names(node: ast.Lambda) -> set[str]:
    """The variables of a lambda: its parameters, and what it binds with `:=`."""
    found = {each.arg for each in walk(node.args) if isinstance(each, ast.arg)}
    waiting: list[ast.AST] = [node.body]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.NamedExpr):
            found.add(each.target.id)
        if not isinstance(each, ast.Lambda):
            waiting += children(each)
    return found


class Renaming(ast.NodeTransformer):
    """Gives variables other names, in an expression and in the scopes inside it that have none of the same name."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names
        # Does a function see one of them, which may outlive the expression?
        self.kept = False
        self._functions = 0

    def renamed(self, node: Any) -> Any:
        """A comprehension whose own variables have other names, but for what it goes over first."""
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.kept = self.kept or bool(self._functions and node.id in self.names)
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        given = node.args
        given.defaults = [self.visit(each) for each in given.defaults]
        given.kw_defaults = [each and self.visit(each) for each in given.kw_defaults]
        self._functions += 1
        with self._without(_own_names(node)):
            node.body = self.visit(node.body)
        self._functions -= 1
        return node

    def _comprehension(self, node: Any) -> Any:
        first = node.generators[0]
        whole = self.visit(first.iter)
        first.iter = ast.Constant(None)
        with self._without(target_names(node)):
            self.generic_visit(node)
        first.iter = whole
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    @contextlib.contextmanager
    def _without(self, own: set[str]) -> Iterator[None]:
        before, self.names = self.names, {name: new for name, new in self.names.items() if name not in own}
        yield
        self.names = before
