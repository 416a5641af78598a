"""try, except, else, finally and raise."""

from __future__ import annotations

import ast
import asyncio
from typing import Any, Optional, Sequence

from . import code
from .awaits import Awaits
from .classes import failure_names
from .code import Code, call, literal
from .frame import MISSING


class Tries(Awaits):
    def within(self, body: Sequence[ast.stmt]) -> int:
        raise NotImplementedError

    def _do_Try(self, node: ast.Try) -> None:
        if not node.finalbody:
            return self.guarded(node, None)
        if not node.orelse:
            return self.guarded(node, node.finalbody)
        # What `else` raises is not for the handlers, but `finally` comes after it.
        with self.inside(self.program.block()) as body:
            self.guarded(node, None)
        kind = {"block": body.number, "finally": self.within(node.finalbody)}
        self.emit({"try": kind}, f"finally-{node.lineno}", node)

    def guarded(self, node: ast.Try, finalbody: Optional[Sequence[ast.stmt]]) -> None:
        passed = self.program.fresh("passed") if node.orelse else None
        if passed is not None:
            self.let(literal(False), node, passed)
        with self.inside(self.program.block()) as body:
            self.statements(node.body)
            if passed is not None and not self.block.left:
                self.let(literal(True), node, passed)
        kind: dict[str, Any] = {"block": body.number}
        handlers = [self.handler(each) for each in node.handlers]
        if handlers:
            kind["handlers"] = handlers
        if finalbody is not None:
            kind["finally"] = self.within(finalbody)
        self.emit({"try": kind}, f"try-{node.lineno}", node)
        if passed is not None:
            when = {"when": code.name(passed).to_json(), "then": self.within(node.orelse)}
            self.emit({"if": when}, f"else-{node.lineno}", node)

    def handler(self, node: ast.ExceptHandler) -> dict[str, Any]:
        failure = self.program.fresh("failure")
        matches = [] if node.type is None else self.caught_names(node.type)
        self.failures.append(failure)
        with self.inside(self.program.block()) as block:
            if node.name is not None:
                self.let(call("py.exception", code.name(failure)), node, self.variable(node.name))
            self.statements(node.body)
        self.failures.pop()
        found: dict[str, Any] = {"name": failure, "block": block.number}
        return {**found, "matches": matches} if matches else found

    def caught_names(self, node: ast.expr) -> list[str]:
        """The names of failures that a handler takes; none: all of them."""
        if isinstance(node, ast.Tuple):
            found = [self.caught_names(each) for each in node.elts]
            return [] if any(not each for each in found) else [name for each in found for name in each]
        cls = self.static(node)
        classes = cls if isinstance(cls, tuple) else (cls,)
        names: list[str] = []
        for each in classes:
            if each is MISSING or not isinstance(each, type) or not issubclass(each, BaseException):
                self.refuse(node, f"'{ast.unparse(node)}' is no exception class", "name the classes: except (A, B)")
            if each is BaseException:
                return []
            if each is asyncio.CancelledError:
                self.refuse(node, "a handler of CancelledError", "use finally: a cancelled run still runs it")
            names += failure_names(each)
        return names

    def _do_TryStar(self, node: ast.stmt) -> None:
        self.refuse(node, "except*", "use except; gather raises the first exception")

    def _do_Raise(self, node: ast.Raise) -> None:
        error = self.raised(node)
        self.emit({"raise": {"error": error.to_json()}}, f"raise-{node.lineno}", node)

    def raised(self, node: ast.Raise) -> Code:
        if node.exc is None:
            if not self.failures:
                self.refuse(node, "a bare raise outside of a handler", "raise an exception: raise ValueError(\"…\")")
            return code.name(self.failures[-1], self.at(node))
        found = self.static(node.exc) if isinstance(node.exc, (ast.Name, ast.Attribute)) else MISSING
        if isinstance(found, type) and issubclass(found, BaseException):
            made = ast.copy_location(ast.Call(node.exc, [], []), node.exc)
            error = self.construct(found, made)
        else:
            error = self.expr(node.exc)
        if node.cause is not None and not (isinstance(node.cause, ast.Constant) and node.cause.value is None):
            error = self.let(error, node)
            self.cause(node.cause)
        return error

    def cause(self, node: ast.expr) -> None:
        """What an exception is raised from is evaluated; the journal has it already."""
        found = self.static(node) if isinstance(node, (ast.Name, ast.Attribute)) else MISSING
        if not isinstance(found, type):
            self.let(self.expr(node), node)
