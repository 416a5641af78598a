"""Statements: assignments, branches, raises and returns become steps that follow each other."""

from __future__ import annotations

import ast
import types
from typing import Any, Callable, NoReturn, Optional, Sequence

from . import code
from .aliasing import Walk
from .code import Code, call, literal, op, truth
from .effects import own_nodes
from .expressions import BINARY
from .frame import MISSING
from .loops import Loops
from .paths import Part, Path, attribute
from .tries import Tries

_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.With: ("a with statement", "open and close what you need inside an @action"),
    ast.AsyncWith: ("an async with statement", "open and close what you need inside an @action"),
    ast.AsyncFor: ("an async for", "await a list from an @action and go over that"),
    ast.Delete: ("a del statement", "make a new value without it: {k: v for k, v in d.items() if k != key}, or use pop()"),
    ast.Global: ("a global statement", "return the value, or keep it in a variable of the workflow"),
    ast.Nonlocal: ("a nonlocal statement", "return the value and assign it in the outer function"),
    ast.Import: ("an import inside a workflow", "import at the top of the module"),
    ast.ImportFrom: ("an import inside a workflow", "import at the top of the module"),
    ast.ClassDef: ("a class inside a workflow", "define it at the top of the module"),
    ast.Match: ("a match statement", "write it as if and elif"),
}


class Statements(Loops, Tries):
    def statements(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if self.block.left:
                return
            compile: Optional[Callable[[Any], None]] = getattr(self, f"_do_{type(node).__name__}", None)
            if compile is None:
                self.no_statement(node)
            else:
                compile(node)

    def no_statement(self, node: ast.stmt) -> NoReturn:
        reason, advice = _REFUSED.get(type(node), (f"{type(node).__name__} is not supported", "do it in an @action"))
        self.refuse(node, reason, advice)

    def body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in ast.walk(node):
            if isinstance(each, (ast.Yield, ast.YieldFrom)):
                self.refuse(each, "a workflow cannot yield", "collect the values in a list and return it")
        self.handler_names(node)
        Walk(self).run()
        self.statements(node.body)

    def handler_names(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Python forgets `e` at the end of `except … as e`."""
        handlers = [each for each in own_nodes(node) if isinstance(each, ast.ExceptHandler) and each.name is not None]
        inside = {id(name) for each in handlers for name in ast.walk(each) if getattr(name, "id", None) == each.name}
        names = {each.name for each in handlers}
        for each in own_nodes(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in names and id(each) not in inside:
                self.refuse(each, f"'{each.id}' is gone after its except block", "keep it under another name: kept = error")

    def within(self, body: Sequence[ast.stmt]) -> int:
        """A block of statements; its number."""
        with self.inside(self.program.block()) as block:
            self.statements(body)
        return block.number

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.define(node)

    def _do_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.define(node)

    def _do_Expr(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant):
            return
        if isinstance(value, ast.Await):
            self.awaited(value.value)
            return
        if isinstance(value, ast.Call) and self.is_task(value):
            self.task(value, self.program.fresh("task"))
            return
        if isinstance(value, ast.Call) and self.callee(value) is not None:
            self.refuse(value, f"'{ast.unparse(value.func)}' is called and not awaited", "write await before it")
        found = self.expr(value, consumed=True)
        if not self.effects(value):
            self.emit({"let": {"value": found.to_json()}}, f"let-{node.lineno}", node)

    def _do_Return(self, node: ast.Return) -> None:
        value = literal(None) if node.value is None else self.returned(node.value)
        self.emit({"return": {"value": value.to_json()}}, f"return-{node.lineno}", node)

    def returned(self, node: ast.expr) -> Code:
        if isinstance(node, ast.Call) and self.callee(node) is not None:
            self.refuse(node, f"'{ast.unparse(node.func)}' is called and not awaited", "write return await …")
        return self.expr(node)

    def _do_If(self, node: ast.If) -> None:
        when = truth(self.expr(node.test), self.at(node.test))
        kind = {"when": when.to_json(), "then": self.within(node.body)}
        if node.orelse:
            kind["otherwise"] = self.within(node.orelse)
        self.emit({"if": kind}, f"if-{node.lineno}", node)

    def _do_Assert(self, node: ast.Assert) -> None:
        when = op(["py.not"], self.expr(node.test), at=self.at(node.test))
        with self.inside(self.program.block()) as failed:
            values = [] if node.msg is None else [self.expr(node.msg)]
            error = self.exception_value(AssertionError, values, node)
            self.emit({"raise": {"error": error.to_json()}}, f"raise-{node.lineno}", node)
        self.emit({"if": {"when": when.to_json(), "then": failed.number}}, f"assert-{node.lineno}", node)

    # Assignment.

    def _do_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            return self.assign_name(target, node.value)
        value = self.expr(node.value)
        if len(node.targets) > 1 and not value.is_literal:
            value = self.let(value, node)
        for each in node.targets:
            self.assign(each, value, node)

    def assign_name(self, target: ast.Name, value: ast.expr) -> None:
        to = self.variable(target.id)
        if target.id in self.nested:
            del self.nested[target.id]
        if isinstance(value, ast.Await):
            self.set_if_other(self.awaited(value.value, to), to, value)
        elif isinstance(value, ast.Call) and self.is_task(value):
            self.task(value, to)
        elif isinstance(value, ast.ListComp) and self.is_task(value.elt):
            self.tasks_of(value, to)
        else:
            self.let(self.expr(value), target, to)

    def set_if_other(self, value: Code, to: str, node: ast.AST) -> None:
        """An await that did not fill the variable itself."""
        if value.instructions != [["name", to]]:
            self.let(value, node, to)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        if isinstance(node.target, ast.Name):
            return self.assign_name(node.target, node.value)
        self.assign(node.target, self.expr(node.value), node)

    def assign(self, target: ast.expr, value: Code, node: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self.let(value, node, self.variable(target.id))
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = self.let(self.unpacked(target, value), node)
            for place, each in enumerate(target.elts):
                self.assign(each.value if isinstance(each, ast.Starred) else each, code.item(parts, place), node)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            if not value.is_literal:
                value = self.let(value, node)
            self.replace(self.path(target), value, node)
        else:
            self.refuse(target, "an assignment to something else than a name or a part", "assign to a variable")

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        word = BINARY.get(type(node.op))
        if word is None:
            self.refuse(node, f"the operator {type(node.op).__name__} is not supported", "do it in an @action")
        path = self.path(node.target)
        before = path.read()
        if self.effects(node.value):
            before = self.let(before, node)
        value = self.expr(node.value)
        changed = op([word], before, value, at=self.at(node))
        if isinstance(node.op, ast.Add) and not _is_scalar(node.value):
            is_list = call("py.isinstance", before, literal("list"))
            changed = op(["if"], is_list, call("py.m.extend", before, value, at=self.at(node)), changed)
        self.replace(path, changed, node)

    # Paths.

    def path(self, node: ast.expr) -> Path:
        """A place that can be changed: a variable, or a part of one."""
        if isinstance(node, ast.Name) and self.is_local(node.id):
            if node.id in self.bound:
                text = self.bound[node.id]
                return Path(text, code.name(text))
            if node.id in self.nested:
                self.refuse(node, f"the function '{node.id}' is used as a value", "call it here; functions are not values")
            text = self.variable(node.id)
            return Path(text, code.name(text, self.at(node)))
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(self.static(node.value), (type, types.ModuleType)):
                self.belongs(node.value)
            if self.static(node) is MISSING:
                path = self.path(node.value)
                path.parts.append(self.part(node))
                return path
        if isinstance(node, ast.Name) or self.static(node) is not MISSING:
            self.belongs(node)
        return Path(None, self.let(self.expr(node), node))

    def belongs(self, node: ast.expr) -> NoReturn:
        title = ast.unparse(node)
        self.refuse(node, f"'{title}' belongs to the module and would be changed", "copy it into a variable first")

    def part(self, node: ast.Attribute | ast.Subscript) -> Part:
        at = self.at(node)
        if isinstance(node, ast.Attribute):
            return attribute(node.attr, at)
        if isinstance(node.slice, ast.Slice):
            bounds = [each or ast.Constant(None) for each in (node.slice.lower, node.slice.upper, node.slice.step)]
            return Part("slice", [self.steady(each) for each in bounds], at)
        return Part("item", [self.steady(node.slice)], at)

    def steady(self, node: ast.expr) -> Code:
        """An index is computed once."""
        value = self.expr(node)
        return value if value.is_literal or len(value.instructions) == 1 else self.let(value, node)

    def replace(self, path: Path, value: Code, node: ast.AST) -> None:
        if path.root is None:
            self.let(path.written(value), node)
            return
        if path.parts and path.parts[0].kind == "attr" and path.root == self.self_variable() and self.concurrent:
            self.refuse(node, "self is changed beside other work", "return the change and apply it afterwards")
        self.let(path.written(value), node, path.root)

    def self_variable(self) -> Optional[str]:
        return None if self.self_name is None else self.variable(self.self_name)


def _is_scalar(node: ast.expr) -> bool:
    """Is it a number for certain? Nothing is extended by one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("len", "int", "float")
